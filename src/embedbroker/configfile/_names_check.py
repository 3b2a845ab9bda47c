"""Check that everything in a file stands at an allowed place: names, how often, and text where text belongs.

Responsible for refusing what the table of names does not have. The error gives the nearest name that the table has, or
the place where the name would be right. What is refused is removed from the tree, so that later steps never find it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from embedclient.model import did_you_mean

from ._document import Element
from ._findings import Findings
from ._names import TEXT, Child, Entry, entry, places

__all__ = ["check_names"]

_ROOT = "configuration"


def check_names(root: Element, findings: Findings) -> None:
    """Report and remove every name, repetition and text that must not stand at its place.

    Raises:
        ConfigFileError: It is a file of another kind.
    """
    if root.name != _ROOT:
        findings.refuse(root.file, f"the outermost element must be <{_ROOT} xmlns='urn:activemq'>, not <{root.name}>")
        findings.raise_if_wrong()
    _check(root, entry(_ROOT), findings)


def _check(element: Element, known: Entry, findings: Findings) -> None:
    for name in list(element.attributes):
        if name not in known.attributes:
            del element.attributes[name]
            findings.refuse(element.attribute_place(name), "unknown attribute" + did_you_mean(name, known.attributes))
    for name, children in list(element.children.items()):
        child = known.children.get(name)
        if child is None:
            del element.children[name]
            for each in children:
                findings.refuse(each.place, "unknown name" + _hint(name, element, known))
            continue
        if len(children) > 1 and not child.repeats:
            findings.refuse(
                children[0].place.removesuffix("[1]"), f"stands there {len(children)} times, once is allowed"
            )
        for each in children:
            _check_content(each, child, findings)
    if element.text is not None and not known.holds_text:
        findings.refuse(element.place, f"text is not expected here: {_shortened(element.text)}")


def _check_content(element: Element, child: Child, findings: Findings) -> None:
    if child.entry is not None:
        _check(element, entry(child.entry), findings)
    elif child.former:
        # What older releases allowed in it is no longer on record, and none of it has an effect.
        element.children.clear()
        element.attributes.clear()
    else:
        _check(element, TEXT, findings)


def _hint(name: str, element: Element, known: Entry) -> str:
    here = element.path.split("/")
    homes = [path[:-1] for path, _ in places() if path[-1] == name]
    if homes:
        nearest = max(homes, key=lambda home: _shared(here, home))
        return f"; it belongs into {'/'.join(nearest) or 'the outermost element'}"
    if near := did_you_mean(name, known.children):
        return near
    if not known.children:
        return f"; {element.name} holds {'text' if known.holds_text else 'attributes'} only"
    # No name is similar: what may stand here is more of a help, if it is not too much.
    return f"; expected one of {', '.join(known.children)}" if len(known.children) <= 8 else ""


def _shared(way: Sequence[str], other: Sequence[str]) -> int:
    """Return how many names two ways have in common at their beginning."""
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(way, other, strict=False))])


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
