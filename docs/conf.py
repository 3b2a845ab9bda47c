"""Sphinx settings; `nox -s docs` builds with warnings as errors."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import attrs
from sphinx import addnodes

project = "embedbroker"
author = "The embedbroker authors"
project_copyright = author
release = installed("embedbroker")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# A single backtick in a docstring is code.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
html_theme = "furo"
html_title = "embedbroker"
html_logo = html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2a64b8", "color-brand-content": "#2a64b8"},
    "dark_css_variables": {"color-brand-primary": "#7fb2ff", "color-brand-content": "#7fb2ff"},
}
# The button copies commands without their prompts and without what they print.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True

# The build needs no network, so other projects' inventories are not there; names that are ours to change have no page.
nitpick_ignore_regex = [
    ("py:.*", r"(collections|contextlib|enum|random|typing)\..*"),
    ("py:.*", r"embedclient\.(_client|agent|model|wire)\..*"),
    ("py:.*", r"embedbroker\.(kernel|node|runtime|storage)\..*"),
    ("py:.*", r"[A-Z]\w*"),
]

# Made by the package and not by users: their arguments are not public.
NOT_CONSTRUCTED = {
    *("ClientConsumer", "ClientProducer", "ClientSession", "ClientSessionFactory", "Connection", "ConnectionMetaData"),
    *("JMSContext", "JMSProducer", "MessageConsumer", "MessageProducer", "QueueBrowser", "Receipt", "Session"),
    *("SeedResult", "ScenarioFailed", "ThreadedBroker", "Verdict", "Kill", "Tally", "Timeline", "TimelineBucket"),
    *("Campaign", "XAConnection", "XASession", "XAJMSContext", "XAResource"),
    *("ManagedBroker", "BrokerPair", "Link", "DiskSwitch", "FaultPlan", "BrokerClock"),
    *("BlockingBroker", "BlockingPair", "BlockingFaultPlan", "BlockingClock", "Opening"),
}
SIGNATURES = {"SimulatedDisk": "(capacity_bytes: int | None = None)"}


def _choose_signature(
    _app: Any, what: str, name: str, _object: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    simple = name.rpartition(".")[2]
    if what in ("class", "exception") and simple in NOT_CONSTRUCTED:
        return "", None
    if what == "class" and simple in SIGNATURES:
        return SIGNATURES[simple], None
    if what == "class" and signature and attrs.has(_object):
        signature = _as_written(_object, signature)
    return signature, returns


def _as_written(kind: type[attrs.AttrsInstance], signature: str) -> str:
    """Return the signature with the types of converted fields, and with a mark for defaults that are computed."""
    for field in attrs.fields(kind):
        if field.converter is not None:
            signature = signature.replace(f"{field.name}: object", f"{field.name}: {field.type}")
    return signature.replace(" = NOTHING", " = ...")


# Of an attribute's text napoleon takes what stands in front of a colon for its type.
_sentences: dict[str, list[str]] = {}


def _keep(_app: Any, what: str, name: str, _object: object, _options: object, lines: list[str]) -> None:
    if what in ("attribute", "property") and "Raises:" not in lines:
        _sentences[name] = list(lines)


def _restore(_app: Any, _what: str, name: str, _object: object, _options: object, lines: list[str]) -> None:
    lines[:] = _sentences.pop(name, lines)


def _leave_type_alone(_app: Any, document: Any) -> None:
    """Make no link of Python's ``type`` in an annotation: fields that have this name are the only targets here."""
    for reference in list(document.findall(addnodes.pending_xref)):
        if reference.get("refdomain") == "py" and reference["reftarget"] == "type":
            reference.replace_self(reference.children)


def setup(app: Any) -> None:
    """Hooks of this build."""
    app.connect("autodoc-process-signature", _choose_signature)
    app.connect("doctree-read", _leave_type_alone)
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
