"""Sizes, names and habits of the source. An exemption names the size it may not exceed, and goes when unused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 60
PUBLIC_METHODS_MAX = 30

# What was longer when the limit came: "path::function" -> lines. Entries may only shrink and go.
EXEMPT_FUNCTIONS: dict[str, int] = {}

FORBIDDEN_WORDS = {"util", "utils", "helper", "helpers", "manager", "managers", "impl", "base", "common", "misc"}
FORBIDDEN_TEXT = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
SLEEPERS = {("time", "sleep"), ("trio", "sleep"), ("asyncio", "sleep"), ("anyio", "sleep")}

# Private names with a meaning that is documented: of named tuples, and of `os`.
DOCUMENTED_NAMES = {"_asdict", "_exit", "_fields", "_make", "_replace"}
# Calls whose texts name an attribute.
VERBS = {"attrgetter", "delattr", "getattr", "hasattr", "methodcaller", "setattr"}
# Where a test may name what is private to another module, and why. Entries go when unused.
EXEMPT_PRIVATE_NAMES = {
    "tests/simulation/fault_points.py": "the table that gives private places of the broker the names of fault points",
    "tests/embedclient/facades/test_thread_shortage.py": "the only place at which an executor starts a thread",
}

SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
OTHERS = sorted(
    [*(path for top in ("benchmarks", "examples", "tools") for path in (ROOT / top).rglob("*.py")), ROOT / "noxfile.py"]
)
EVERYTHING = [path for path in (*SOURCES, *TESTS, *OTHERS) if path.exists()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Names and lengths: with decorators, without the docstring, which lists arguments and errors."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            opening = node.body[0]
            described = (opening.end_lineno or 0) - opening.lineno + 1 if ast.get_docstring(node) is not None else 0
            yield f"{name_of(path)}::{node.name}", (node.end_lineno or first) - first + 1 - described


def oversize(sizes: dict[str, int], limit: int, exempt: dict[str, int]) -> list[str]:
    """What is too long, and exemptions that no longer fit: an exemption equals the size it excuses."""
    wrong = [f"{name}: {size} lines" for name, size in sizes.items() if size > max(limit, exempt.get(name, 0))]
    stale = [f"{name}: exempt for {size} lines" for name, size in exempt.items() if sizes.get(name, 0) < size]
    return wrong + stale


def test_functions_stay_short() -> None:
    sizes: dict[str, int] = {}
    for path in EVERYTHING:
        for name, length in functions(path):
            sizes[name] = max(length, sizes.get(name, 0))
    assert oversize(sizes, FUNCTION_LINES_MAX, EXEMPT_FUNCTIONS) == []


def public_methods(cls: ast.ClassDef) -> list[str]:
    """Verbs of a class; properties are not counted."""
    methods = [node for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    properties = {"property", "cached_property"}
    return [
        node.name
        for node in methods
        if not node.name.startswith("_")
        and not any(
            ast.unparse(each) in properties or ast.unparse(each).endswith(".setter") for each in node.decorator_list
        )
    ]


def test_classes_have_few_verbs() -> None:
    large = {
        f"{name_of(path)} {cls.name}": count
        for path in SOURCES
        for cls in ast.walk(ast.parse(path.read_text()))
        if isinstance(cls, ast.ClassDef) and (count := len(public_methods(cls))) > PUBLIC_METHODS_MAX
    }
    assert large == {}


def test_files_are_domain_nouns() -> None:
    assert [name_of(path) for path in EVERYTHING if FORBIDDEN_WORDS & set(path.stem.lower().split("_"))] == []


def test_modules_say_what_they_are_responsible_for() -> None:
    # Without a parser: it begins with its docstring.
    assert [name_of(path) for path in EVERYTHING if re.match(r'\s*r?"""\s*\S', path.read_text()) is None] == []


def test_nothing_is_left_for_later() -> None:
    unfinished = [
        f"{name_of(path)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORBIDDEN_TEXT.search(line)
    ]
    assert unfinished == []


def test_no_handler_swallows_everything() -> None:
    def broad(handler: ast.ExceptHandler) -> bool:
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {name.id if isinstance(name, ast.Name) else "" for name in caught} if handler.type else {"Exception"}
        if "Exception" in names:
            return True
        # BaseException may be caught to clean up, if it goes on.
        raises = any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))
        return "BaseException" in names and not raises

    handlers = (
        (path, node)
        for path in SOURCES
        if re.search(r"\bexcept\b", source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ExceptHandler)
    )
    assert [f"{name_of(path)}:{handler.lineno}" for path, handler in handlers if broad(handler)] == []


def test_tests_do_not_sleep() -> None:
    def yields_only(call: ast.Call) -> bool:  # sleep(0) gives others a turn and takes no time
        return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0

    sleeping = [
        f"{name_of(path)}:{call.lineno}"
        for path in TESTS
        if re.search(r"\bsleep\w*\(", source := path.read_text())
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr) in SLEEPERS
        and not yields_only(call)
    ]
    assert sleeping == [], "wait for an event or use virtual time"


# -- private names in tests ------------------------------------------------------------------------------------------


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in DOCUMENTED_NAMES


def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    src = ROOT.joinpath("src", *name.split("."))
    return any(each.is_dir() or each.with_suffix(".py").exists() for each in (place, src))


def defined_in(tree: ast.Module) -> set[str]:
    """Names of functions and classes, and of what they assign to themselves."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.ClassDef() | ast.Module():
                pass
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
    return names


def names_used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that belong to another object or module: attributes, what is imported, and texts that name one of both."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(value=ast.Name(id="self" | "cls"))
                | ast.Attribute(value=ast.Call(func=ast.Name(id="super")))
            ):
                pass  # a class may use what it inherits
            case ast.Attribute(attr=name, lineno=line):
                yield line, name
            case ast.ImportFrom(module=str(module), names=names, lineno=line):
                yield from ((line, each.name) for each in names if not is_module(f"{module}.{each.name}"))
            case ast.Call(func=ast.Name(id=verb) | ast.Attribute(attr=verb), args=arguments, lineno=line) if (
                verb in VERBS
            ):
                texts = [each.value for each in arguments if isinstance(each, ast.Constant)]
                yield from ((line, text.rpartition(".")[2]) for text in texts if isinstance(text, str))
            case ast.Tuple(elts=[ast.Name() | ast.Attribute(), ast.Constant(value=str(text))], lineno=line):
                yield line, text  # the owner and the name of what a test replaces


def private_names(text: str) -> list[tuple[int, str]]:
    """Lines and names of what is private to another module."""
    tree = ast.parse(text)
    own = defined_in(tree)
    return [(line, name) for line, name in names_used(tree) if is_private(name) and name not in own]


def test_tests_use_no_private_names_of_other_modules() -> None:
    """They assert on `statistics()`, on properties and on behaviour; bugs are put in at named fault points."""
    found = {name_of(path): private_names(path.read_text()) for path in TESTS}
    shown = [f"{name}:{line}: {used}" for name, uses in found.items() for line, used in uses]
    assert [each for each in shown if each.partition(":")[0] not in EXEMPT_PRIVATE_NAMES] == []
    assert [name for name in EXEMPT_PRIVATE_NAMES if not found.get(name)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("queue._backlog", ["_backlog"]),
        ("broker.life()._host._peers", ["_peers", "_host"]),
        ("from embedbroker.kernel.queueing._queue import _hand", ["_hand"]),
        ("from embedbroker.kernel.queueing import _queue", []),
        ("monkeypatch.setattr(Queue, '_hand', None)", ["_hand"]),
        ("monkeypatch.setattr('embedbroker.kernel._kernel.Kernel._step', None)", ["_step"]),
        ("monkeypatch.setattr('embedbroker.locks._claim.HEARD_WITHIN_S', 0)", []),
        ("getattr(queue, '_backlog')", ["_backlog"]),
        ("PLACES = [(Queue, '_hand')]", ["_hand"]),
        ("class Double(Peer):\n    def _close(self):\n        super()._close()\n        self._inner()", []),
        ("class Double:\n    def __init__(self):\n        self._sent = 1\nDouble()._sent", []),
        ("row._replace(size=1)", []),
        ("queue.__class__", []),
    ],
)
def test_private_names_are_found(text: str, expected: list[str]) -> None:
    assert [name for _line, name in private_names(text)] == expected
