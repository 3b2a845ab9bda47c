"""The API reference has every public name: what a package lists in `__all__` stands on a page of docs/api.

A public function has its arguments under `Args:` and its errors under `Raises:`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pytest

import embedclient

SOURCE = Path(__file__).parents[1] / "src"
API = Path(__file__).parents[1] / "docs" / "api"
PACKAGES = [
    "embedbroker",
    "embedbroker.ledger",
    "embedbroker.pytest_plugin",
    "embedbroker.testing",
    "embedclient",
    "embedclient.asyncio",
    "embedclient.blocking",
    "embedclient.errors",
]
DIRECTIVE = re.compile(r"^\.\. (?:auto(?:class|exception|function)|py:data):: ([\w.]+)$", re.MULTILINE)
AUTOCLASS = re.compile(r"^\.\. autoclass:: ([\w.]+)\n((?:   :.*\n)*)", re.MULTILINE)
WHOLE_MODULE = re.compile(r"^\.\. automodule:: ([\w.]+)\n(?:   :.*\n)*?   :members:$", re.MULTILINE)


def resolved(dotted: str) -> object:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)


def documented() -> dict[str, object]:
    """What the pages have, by its full name."""
    text = "\n".join(page.read_text() for page in sorted(API.glob("*.md")))
    names = DIRECTIVE.findall(text)
    for module in WHOLE_MODULE.findall(text):
        names += [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    return {name: resolved(name) for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_stands_on_a_page(package: str) -> None:
    module = importlib.import_module(package)
    shown = documented()
    # A class may be documented under the name of the package it lives in.
    classes = [found for found in shown.values() if inspect.isclass(found)]
    objects = {name: getattr(module, name) for name in module.__all__}
    missing = {name for name, value in objects.items() if f"{package}.{name}" not in shown and value not in classes}
    if package in ("embedclient.asyncio", "embedclient.blocking"):  # what is the same there has its page already
        missing -= {name for name in missing if objects[name] is getattr(embedclient, name)}
    assert missing - {"errors"} == set()  # a module, with a separate page


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    objects = {name: getattr(module, name) for name in module.__all__}
    silent = [
        name
        for name, value in objects.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value)
    ]
    assert silent == []


def test_every_public_class_shows_itself() -> None:
    silent = set()
    for package in PACKAGES:
        for name in importlib.import_module(package).__all__:
            value = getattr(importlib.import_module(package), name)
            if inspect.isclass(value) and value.__repr__ is object.__repr__:
                silent.add(name)
    assert silent == set()


UNITS = re.compile(r"(?:^|_)(?:delay|timeout|interval|period|ttl|wait)$")


def test_a_whole_number_of_milliseconds_has_its_unit_in_its_name() -> None:
    """Every other time is in seconds, as a float."""
    fields = {
        f"{name}.{field.name}: {field.type}"
        for package in PACKAGES
        for name in importlib.import_module(package).__all__
        if attrs.has(value := getattr(importlib.import_module(package), name))
        for field in attrs.fields(value)
        if UNITS.search(field.name)
    }
    assert fields == {"ScaleDown.commit_interval: int"}  # messages


# -- arguments and errors --------------------------------------------------------------------------------------------

# A class whose docstring names its maker is not constructed by users.
MADE = "Made by "
PIPELINE = SOURCE / "embedbroker" / "pipeline"


def shown_members() -> dict[type, tuple[set[str] | None, set[str]]]:
    """Classes of the pages, with the members that a page lists (None: all) and those that it excludes."""
    shown: dict[type, tuple[set[str] | None, set[str]]] = {}
    for page in sorted(API.glob("*.md")):
        text = page.read_text()
        for name, lines in AUTOCLASS.findall(text):
            options = dict(re.findall(r":([\w-]+): ?(.*)", lines))
            listed = set(re.findall(r"\w+", options["members"])) if "members" in options else {""}
            cls = resolved(name)
            assert inspect.isclass(cls)
            shown[cls] = (listed or None, set(re.findall(r"\w+", options.get("exclude-members", ""))))
        for module in WHOLE_MODULE.findall(text):
            for name in importlib.import_module(module).__all__:
                cls = resolved(f"{module}.{name}")
                if inspect.isclass(cls):
                    shown.setdefault(cls, (None, set()))
    return shown


def own_bases(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.startswith("embed")]


def methods_of(cls: type, listed: set[str] | None, excluded: set[str]) -> Iterator[tuple[str, object]]:
    """Methods of a class and of its bases of this project that its page shows."""
    seen = set(excluded)
    for base in own_bases(cls):
        for name, member in vars(base).items():
            function = inspect.unwrap(member.__func__ if isinstance(member, classmethod | staticmethod) else member)
            if not inspect.isfunction(function) or name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if listed is None or name in listed:
                yield name, function


def entries_of(docstring: str) -> set[str]:
    """Names that an `Args:` or `Attributes:` section of a docstring explains."""
    found: set[str] = set()
    for section in re.findall(r"^(?:Args|Attributes):\n((?: .*\n?|\n(?= ))+)", docstring, re.MULTILINE):
        for names in re.findall(r"^    \*{0,2}(\w+(?:, \w+)*):", section, re.MULTILINE):
            found.update(names.split(", "))
    return found


def documented_fields(cls: type) -> set[str]:
    """Fields of a class with a docstring below them."""
    found = set()
    for base in own_bases(cls):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                found.add(field.target.id)
    return found


def undocumented_arguments(cls: type) -> list[str]:
    """Arguments of a class that users construct which no docstring of it explains."""
    made = any(MADE in (base.__doc__ or "") for base in own_bases(cls))
    constructor = inspect.getattr_static(cls, "__init__")
    if made or constructor is object.__init__:
        return []
    explained = set().union(*(entries_of(inspect.cleandoc(base.__doc__ or "")) for base in own_bases(cls)))
    if attrs.has(cls):
        explained |= documented_fields(cls)
        names = [field.name for field in attrs.fields(cls) if field.init and not field.name.startswith("_")]
    elif inspect.isfunction(constructor) and constructor.__module__.startswith("embed"):
        names = list(inspect.signature(constructor).parameters)[1:]
    else:
        return []
    return [name for name in names if name not in explained]


def raised_in(function: ast.AST) -> bool:
    """Return True if a function creates the error that it raises."""
    return any(
        isinstance(node, ast.Raise) and node.exc is not None and not isinstance(node.exc, ast.Name)
        for node in ast.walk(function)
    )


def missing_in(docstring: str, names: Iterable[str], function: ast.AST) -> list[str]:
    wanted = list(names)
    explained = entries_of(docstring)
    missing = [name for name in wanted if name not in explained] if len(wanted) > 1 else []
    return missing + ["Raises"] * (raised_in(function) and not re.search(r"^Raises:", docstring, re.MULTILINE))


def test_public_functions_explain_their_arguments_and_errors() -> None:
    wrong: dict[str, list[str]] = {}
    shown = shown_members()
    for cls, (listed, _) in shown.items():
        excluded = {name for base in own_bases(cls) for name in shown.get(base, (None, set()))[1]}
        for name, function in methods_of(cls, listed, excluded):
            assert inspect.isfunction(function)
            source = ast.parse(textwrap.dedent(inspect.getsource(function)))
            parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
            wrong[f"{cls.__module__}.{cls.__name__}.{name}"] = missing_in(
                inspect.getdoc(function) or "", parameters, source
            )
    functions = {name: value for name, value in documented().items() if inspect.isfunction(value)}
    for name, function in functions.items():
        source = ast.parse(textwrap.dedent(inspect.getsource(function)))
        wrong[name] = missing_in(inspect.getdoc(function) or "", inspect.signature(function).parameters, source)
    assert {name: missing for name, missing in wrong.items() if missing} == {}


def test_public_classes_explain_what_they_are_made_of() -> None:
    wrong = {cls.__name__: undocumented_arguments(cls) for cls in shown_members()}
    assert {name: missing for name, missing in wrong.items() if missing} == {}


def test_jobs_explain_their_arguments_and_errors() -> None:
    """The pipeline is read as text: importing it needs Spark."""
    package = ast.parse((PIPELINE / "__init__.py").read_text())
    public = next(
        ast.literal_eval(node.value)
        for node in package.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    found = {
        node.name: node
        for path in PIPELINE.glob("_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in public
    }
    assert set(found) == set(public)
    wrong: dict[str, list[str]] = {}
    for name, node in found.items():
        methods = node.body if isinstance(node, ast.ClassDef) else [node]
        for method in methods:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                arguments = method.args
                every = (
                    *arguments.posonlyargs,
                    *arguments.args,
                    arguments.vararg,
                    *arguments.kwonlyargs,
                    arguments.kwarg,
                )
                parameters = [each.arg for each in every if each is not None and each.arg not in ("self", "cls")]
                wrong[f"{name}.{method.name}"] = missing_in(ast.get_docstring(method) or "", parameters, method)
    assert {name: missing for name, missing in wrong.items() if missing} == {}


@pytest.mark.parametrize(
    ("docstring", "missing"),
    [
        (
            "Do it.\n\nArgs:\n    one: the first\n        of two.\n    two: the other.\n\nRaises:\n    KeyError: so.",
            [],
        ),
        ("Do it.\n\nArgs:\n    one: the first.\n\nRaises: as `other`.", ["two"]),
        ("Do it, one and two.", ["one", "two", "Raises"]),
    ],
)
def test_what_is_missing(docstring: str, missing: list[str]) -> None:
    assert missing_in(docstring, ["one", "two"], ast.parse("raise KeyError(one)")) == missing
