"""Which package may import which: the table of docs/ARCHITECTURE.md as data, checked against the source.

A layer is a folder (or the module `errors`) directly below `embedclient` ("c.") or `embedbroker` ("b."); `c` and `b`
are the two facades. Changing a row means changing the table in the document too, with the reason.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from attrs import frozen

SOURCE = Path(__file__).parents[1] / "src"
PREFIXES = {"embedclient": "c", "embedbroker": "b"}
LAZY = "embedclient._lazy"  # of no layer: what every package may begin with

SYNC_BROKER = (
    "b.config b.kernel b.protocols b.storage b.locks b.security b.management b.outbound b.cluster b.replication b.ha"
)
CLIENT_EDGE = "c.errors c.model c.agent c.transport"
# fmt: off
ALLOWED = {
    "c.errors":        "",
    "c.model":         "c.errors",
    "c.wire":          "c.errors c.model",
    "c.engine":        "c.errors c.model c.wire",
    "c.agent":         "c.errors c.model c.wire c.engine",
    "c.tls":           "c.errors c.model",
    "c.transport":     "c.errors c.model c.tls",
    "c._client":       CLIENT_EDGE,
    "c.blocking":      CLIENT_EDGE + " c._client",
    "c.asyncio":       CLIENT_EDGE + " c._client c.tls",
    "b.config":        "c.errors c.model",
    "b.configfile":    "b.config b.security c.errors c.model",
    # Inside b.kernel: see KERNEL_LADDER.
    "b.kernel":        "b.config c.errors c.model",
    "b.protocols":     "b.kernel b.management b.config b.security c.errors c.model c.wire c.engine",
    "b.storage":       "b.kernel b.config c.errors c.model c.wire",
    "b.locks":         "b.config c.errors",
    "b.security":      "b.kernel b.config c.errors c.model",
    "b.management":    "b.kernel b.config c.errors c.model",
    "b.cluster":       "b.kernel b.config c.errors c.model c.wire c.engine c.agent",
    "b.outbound":      "b.kernel b.config b.cluster c.errors c.model c.wire c.engine c.agent",
    "b.replication":   "b.kernel b.config b.storage b.locks c.errors c.model c.wire c.engine c.agent",
    "b.ha":            "b.config b.storage b.locks b.cluster b.replication c.errors c.model c.wire",
    "b.node":          SYNC_BROKER + " c.errors c.model c.engine c.agent",
    "b.runtime":       "b.node b.config b.storage b.locks c.errors c.model c.tls c.transport",
    "b.ledger":        "c.errors c.model",
    "b.report":        "",
    "b.testing":       "b.node b.storage b.locks b.config b.ledger b.kernel c.errors c.model c.wire c.engine c.agent",
    "b.pytest_plugin": (
        "b.runtime b.testing b.ledger b.config b.kernel b.node b.protocols b.storage b.locks b c c.errors c.model "
        "c.wire c.transport c.blocking c.asyncio"
    ),
    "b.cli": (
        "b b.configfile b.security b.ledger b.storage b.runtime b.pipeline b.report c c.errors c.model c.blocking"
    ),
    "b.console":       "b b.configfile b.ledger b.storage c c.errors c.blocking",
    "b.pipeline":      "b.storage b.ledger b.report c.blocking c.errors c.model c.wire",
}
SYNC = {*SYNC_BROKER.split(), "b.node", "b.ledger", "b.testing", "c.errors", "c.model", "c.wire", "c.engine", "c.agent"}

# Standard modules without I/O, clock or chance. What reads a clock, a file or random bits is handed in from the edges.
PURE_NAMES = """
    __future__ abc array ast base64 binascii bisect codecs collections contextlib copy decimal difflib enum fractions
    functools gc graphlib hashlib heapq hmac html inspect io ipaddress itertools json math numbers operator re
    statistics string struct sys textwrap traceback types typing unicodedata urllib warnings weakref zlib
"""
PURE = set(PURE_NAMES.split())
# A module's own additions: the reason stands in its docstring.
EXTRA_STANDARD = {
    "embedbroker.storage._disk": {"errno", "os", "pathlib", "stat"},  # the driver: files and bytes, no meaning
    "embedclient.model._saving": {"os", "pathlib"},  # the file that a program names for a message's content
    "embedclient.model._jgroups_stack": {"xml"},  # a parser of text; expat opens no file without handlers for entities
    "b.testing": {"random"},  # seeded generators only; see test_randomness_is_seeded
}
THIRD_PARTY = {
    **{edge: {"attrs", "trio", "outcome"} for edge in ("c.transport", "c._client", "c.blocking")},
    "b.runtime": {"attrs", "trio", "outcome", "kazoo"},  # kazoo by one driver, when a configuration names it
    "c.asyncio": {"attrs", "trio", "trio_asyncio", "outcome"},
    "c.tls": {"attrs", "cryptography"},
    "b.configfile": {"attrs", "xmltodict"},
    "b.security": {"attrs", "cryptography"},
    "b.pytest_plugin": {"attrs", "trio", "pytest", "outcome"},
    # py4j is how Spark reports that its Java has ended.
    "b.cli": {"attrs", "trio", "click", "rich", "pyspark", "py4j", "cryptography"},
    "b.console": {"attrs", "trio", "starlette", "hypercorn"},
    "b.pipeline": {"attrs", "pyspark", "pyarrow", "numpy"},
    "b.report": {"attrs", "jinja2"},
}
# fmt: on
# Packages of b.kernel, the lowest first. Modules of the kernel itself have no rank: they are below, as `_store`, or
# above, as `_session`; the test of circles holds them. An address has queues, so addressing is above queueing.
# Transactions settle what they took, so they are above settling.
KERNEL_LADDER = ("message", "selector", "queueing", "addressing", "settling", "transactions", "xa cursors")
# The facade, and what is above the composition.
KERNEL_NAMED_BY = {"", "._session", "._recovery"}
# Modules of b.kernel that read the encoded bytes of a message: what stores it, packs it, restores it, and returns rows.
KERNEL_READS_BYTES = {"._recovery", ".cursors._cursors", ".queueing._reference"}


@frozen
class Import:
    """One imported name, seen from the module that imports it; `names` are what a `from` import takes."""

    module: str
    line: int
    target: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target} {' '.join(self.names)}".rstrip()


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def layer_of(module: str) -> str | None:
    """The layer of a module of ours (`c.wire`, or `c` for the facade), None for everything else."""
    parts = module.split(".")
    if parts[0] not in PREFIXES or module == LAZY:
        return None
    inside = [] if parts[1:] == ["__main__"] else parts[1:2]  # a package that is run is its facade
    return ".".join([PREFIXES[parts[0]], *inside])


def imports_of(module: str) -> Iterator[Import]:
    path = MODULES[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, node.lineno, alias.name, ())
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            target = ".".join([*start, *(node.module or "").split(".")]).rstrip(".")
            names = tuple(alias.name for alias in node.names)
            inner = tuple(name for name in names if f"{target}.{name}" in MODULES)
            yield from (Import(module, node.lineno, f"{target}.{name}", ()) for name in inner)
            if len(inner) < len(names):
                yield Import(module, node.lineno, target, tuple(name for name in names if name not in inner))


@cache
def all_imports() -> list[Import]:
    return [found for module in MODULES for found in imports_of(module)]


@cache
def crossing() -> list[tuple[Import, str, str]]:
    """Each import of another layer, with both layers."""
    return [
        (found, source, target)
        for found in all_imports()
        if (source := layer_of(found.module)) and (target := layer_of(found.target)) and source != target
    ]


def test_every_layer_is_in_the_table() -> None:
    layers = {layer for module in MODULES if (layer := layer_of(module))}
    assert layers - set(ALLOWED) - {"b", "c"} == set()


def test_layers_import_only_what_the_table_allows() -> None:
    def allowed(source: str, target: str) -> bool:
        if source in ("b", "c"):  # a facade sits above its own package
            return target.startswith(f"{source}.")
        return target in ALLOWED[source].split()

    assert [str(found) for found, source, target in crossing() if not allowed(source, target)] == []


def test_the_table_has_no_cycle() -> None:
    graph = {layer: {name for name in row.split() if name in ALLOWED} for layer, row in ALLOWED.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(ALLOWED)


def _cycles() -> list[list[str]]:
    """Return each set of modules of one layer that import each other in a circle."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in all_imports():
        target = found.target
        if target in MODULES and target != found.module and layer_of(target) == layer_of(found.module):
            graph[found.module].add(target)

    def reached_from(module: str) -> set[str]:
        reached: set[str] = set()
        waiting = [module]
        while waiting:
            following = graph[waiting.pop()] - reached
            reached |= following
            waiting += following
        return reached

    reached = {module: reached_from(module) for module in MODULES}
    circles = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in MODULES
        if module in reached[module]
    }
    return sorted(sorted(circle) for circle in circles)


def test_files_of_a_layer_do_not_import_each_other_in_a_circle() -> None:
    """Imports for type checking count: a circle of files is one file, and no part of it can be read by itself."""
    assert _cycles() == []


def test_packages_of_the_kernel_import_what_is_below_them() -> None:
    ranks = {package: rank for rank, row in enumerate(KERNEL_LADDER) for package in row.split()}
    packages = {module.split(".")[2] for module in MODULES if module.startswith("embedbroker.kernel.")}
    assert {package for package in packages if not package.startswith("_")} == set(ranks)

    def package_of(module: str) -> str | None:
        name = module.removeprefix("embedbroker.kernel.").split(".")[0]
        return name if module.startswith("embedbroker.kernel.") and name in ranks else None

    upward = {
        f"{source} imports {target}"
        for found in all_imports()
        if (source := package_of(found.module)) and (target := package_of(found.target)) and source != target
        if ranks[target] >= ranks[source]
    }
    assert sorted(upward) == []


def test_parts_of_the_kernel_receive_parts_and_not_the_kernel() -> None:
    inside = [found for found in all_imports() if found.module.startswith("embedbroker.kernel")]
    naming = {found.module for found in inside if "Kernel" in found.names}
    assert naming == {f"embedbroker.kernel{module}" for module in KERNEL_NAMED_BY}


def test_the_kernel_handles_stored_messages_of_any_encoding() -> None:
    """Names of properties are for codecs, and sizes come from the message: its body may not be resident."""
    naming, reading, raw = [], set(), []
    for module, path in MODULES.items():
        if not module.startswith("embedbroker.kernel"):
            continue
        naming += [f"{module} {name}" for name in ("_AMQ_", "x-opt-") if name in path.read_text()]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "raw":
                raw.append(f"{module}:{node.lineno} {ast.unparse(node)}")
            if isinstance(node, ast.Attribute) and node.attr == "stored_bytes":
                reading.add(module.removeprefix("embedbroker.kernel"))
    assert (naming, raw, reading) == ([], [], KERNEL_READS_BYTES)


def test_the_drawing_shows_every_layer_there_is_and_imports_go_its_way() -> None:
    drawing = ElementTree.parse(SOURCE.parent / "docs" / "layers.svg").getroot()
    texts = drawing.iter("{http://www.w3.org/2000/svg}text")
    bold = [element for element in texts if element.get("font-weight") == "bold"]
    places = {str(element.text): (float(element.get("x", 0)), float(element.get("y", 0))) for element in bold}
    assert places.keys() == {layer for module in MODULES if (layer := layer_of(module))} - {"b", "c"}
    for source, target in {(source, target) for _, source, target in crossing() if {source, target} <= places.keys()}:
        (x, y), (target_x, target_y) = places[source], places[target]
        aside = target_y == y and (target_x > x or source[0] != target[0])
        assert target_y > y or aside, f"{source} imports {target}"


def test_layers_import_packages_and_not_their_insides() -> None:
    def reaches_inside(found: Import) -> bool:
        path = found.target.split(".")[2:]
        return any(name.startswith("_") and name != "__version__" for name in (*path, *found.names))

    assert [str(found) for found, source, _ in crossing() if source not in ("b", "c") and reaches_inside(found)] == []


def test_only_packages_have_lazy_names_and_there_is_one_way_to() -> None:
    """What `embedclient._lazy` does stands in no other module, and it needs nothing of ours."""
    users = [found for found in all_imports() if found.target == LAZY and MODULES[found.module].name != "__init__.py"]
    assert [str(found) for found in users] == []
    assert [
        str(found) for found in all_imports() if found.module == LAZY and found.target.split(".")[0] in PREFIXES
    ] == []
    by_hand = [
        module
        for module, path in MODULES.items()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    ]
    assert by_hand == []


def test_inner_modules_are_underscored() -> None:
    open_names = {"embedclient.errors"}
    inner = [module for module, path in MODULES.items() if path.name != "__init__.py" and module not in open_names]
    assert [module for module in inner if not module.split(".")[-1].startswith("_")] == []


def test_sync_layers_have_no_clock_no_chance_and_no_input_or_output() -> None:
    def permitted(found: Import, layer: str, top: str) -> bool:
        extra = EXTRA_STANDARD.get(layer, set()) | EXTRA_STANDARD.get(found.module, set())
        return top in PURE or top == "attrs" or top in extra or top in THIRD_PARTY.get(layer, set())

    foreign = ((found, layer_of(found.module), found.target.split(".")[0]) for found in all_imports())
    wrong = [
        str(f) for f, layer, top in foreign if layer in SYNC and top not in PREFIXES and not permitted(f, layer, top)
    ]
    assert wrong == []


def test_scenarios_of_the_simulator_have_no_clock_no_chance_and_no_input_or_output() -> None:
    """They stand among the tests, and each must give the same run from its seed wherever it runs."""
    wrong = []
    for path in sorted((SOURCE.parent / "tests" / "simulation" / "scenario").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            tops = {alias.name.split(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()
            if isinstance(node, ast.ImportFrom) and not node.level:
                tops = {(node.module or "").split(".")[0]}
                assert node.module != "random" or [alias.name for alias in node.names] == ["Random"]
            wrong += [f"{path.name} imports {top}" for top in tops - PURE - PREFIXES.keys() - {"attrs", "random"}]
    assert wrong == []


def test_other_libraries_are_used_where_they_belong() -> None:
    def permitted(layer: str | None, top: str) -> bool:
        if layer in ("b", "c"):
            return top == "attrs"
        return top in THIRD_PARTY.get(layer or "", {"attrs"})

    foreign = ((found, layer_of(found.module), found.target.split(".")[0]) for found in all_imports())
    wrong = [
        str(found)
        for found, layer, top in foreign
        if top not in PREFIXES and top not in sys.stdlib_module_names and not permitted(layer, top)
    ]
    assert wrong == []


def test_inputs_and_outputs_of_connections_are_defined_once() -> None:
    """Node and agent share the vocabulary of `embedclient.engine._io`; a second class of that name would not match."""
    shared = "embedclient.engine._io"
    classes = {
        module: {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
        for module, path in MODULES.items()
        if layer_of(module) in SYNC
    }
    assert {"BytesReceived", "SendBytes", "Dial", "Tick"} <= classes[shared]
    assert {module: names & classes[shared] for module, names in classes.items() if names & classes[shared]} == {
        shared: classes[shared]
    }


def test_the_state_of_a_core_connection_is_kept_in_the_engine() -> None:
    """Clients, brokers and links between them share `ConnectionState`; only the simulator's checkers cut frames too."""
    names = {"FrameSplitter", "HANDSHAKE"}
    using = {found.module for found in all_imports() if names & set(found.names)}
    inside = {"c.wire", "c.engine", "b.testing"}
    assert [module for module in using if layer_of(module) not in inside] == []


# Hooks that are left: class -> assignments. Entries may only get smaller and go.
EXEMPT_HOOKS = {
    # The end of one call, and each wait for it has another function: a protocol would be a class per wait.
    "Receipt": 1,
    "TrioEdge": 2,
    "Script": 2,
    # A consumer of the agent is read by one reader at a time, which changes: a receive, an iteration, a listener.
    "Inbox": 1,
    "Intake": 1,
    # The agent has one edge, which is a client's of trio or asyncio, or the simulator's; set once, before it runs.
    "ClientHost": 1,
    "Connection": 1,
    "Pump": 1,
    # The host of a broker that has no endpoint, as in tests, does nothing for these outputs.
    "Life": 2,
}


def hooks_in(cls: ast.ClassDef) -> Iterator[str]:
    """Assignments of this class's methods, or of lambdas, to attributes of other objects."""
    methods = {node.name for node in cls.body if isinstance(node, ast.FunctionDef) and not node.decorator_list}
    for node in ast.walk(cls):
        if not isinstance(node, ast.Assign):
            continue
        value = node.value
        is_method = isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self" and value.attr in methods
        if is_method or isinstance(value, ast.Lambda):
            targets = [target for target in node.targets if isinstance(target, ast.Attribute)]
            yield from (ast.unparse(node) for target in targets if ast.unparse(target.value) != "self")


def callables_of(cls: ast.ClassDef) -> list[str]:
    """Parameters of a constructor that take a callable."""
    constructors = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    parameters = [each for made in constructors for each in (*made.args.args, *made.args.kwonlyargs)]
    return [each.arg for each in parameters if each.annotation and "Callable" in ast.unparse(each.annotation)]


def test_objects_are_not_wired_by_methods_that_others_put_into_them() -> None:
    """They hand events to an owner, return decisions, or take at most three callables in their constructor."""
    hooks: Counter[str] = Counter()
    for path in MODULES.values():
        for cls in [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]:
            hooks[cls.name] += len(list(hooks_in(cls)))
            assert len(callables_of(cls)) <= 3, (path, cls.name)
    assert [f"{name}: {count}" for name, count in hooks.items() if count > EXEMPT_HOOKS.get(name, 0)] == []
    assert [f"{name}: {hooks[name]}" for name, count in EXEMPT_HOOKS.items() if hooks[name] < count] == [], "shorten it"


def test_randomness_is_seeded() -> None:
    """Sync layers take the class `Random` from the module, and nothing that has a hidden state."""
    using = [found for found in all_imports() if found.target == "random" and layer_of(found.module) in SYNC]
    wrong = [str(found) for found in using if set(found.names) - {"Random"}]
    for module in {found.module for found in using if not found.names}:
        for node in ast.walk(ast.parse(MODULES[module].read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
                wrong += [f"{module}:{node.lineno} random.{node.attr}"] if node.attr != "Random" else []
    assert wrong == []


def test_clients_reach_the_kernel_through_their_session() -> None:
    """Protocols and services call no address manager and no `XaBranches`: `Session` has the verbs of clients."""
    bind_internal = {"embedbroker.protocols.core._session": ["bind_internal", "bind_internal"]}
    found: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        if layer_of(module) != "b.protocols" and not module.startswith("embedbroker.management.services"):
            continue
        attributes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        names = [node.attr for node in attributes if getattr(node.value, "attr", None) == "address_manager"]
        names += [node.attr for node in attributes if node.attr == "branches"]
        if names:
            found[module] = names
    assert found == bind_internal


# What operations of management call on parts of the kernel, beside the verbs of their session.
MANAGEMENT_READS = """
    address_manager.addresses.get address_manager.addresses.values address_manager.find_queue address_manager.is_bound
    address_manager.queues.get address_manager.queues.values address_manager.remote_bindings_of
    address_manager.resolution.diverts_at
    address_manager.selector branches.outcomes branches.prepared branches.transactions duplicates.is_in_force
    bridges.connectors.values memory.address_bytes memory.has_room message_counters.of router.reaches_queues
    settings.given settings.of settings_table.security_of
"""
# Effects on messages of a queue that the session returned, which checks the permission (`use_queue`, `admit_send`).
MANAGEMENT_ON_QUEUES = """
    dead_letters.move expiry.move mover.change_priority mover.copy mover.move removal.leave teardown.take_waiting
"""
# Of the broker as a whole: the registry checks the only permission. What goes to a queue is the snapshot of queues.
MANAGEMENT_OF_THE_BROKER = """
    address_manager.provide_targets bridges.add_connector bridges.create bridges.remove bridges.remove_connector
    housekeeping.reschedule inform log message_counters.disable message_counters.enable message_counters.reset
    message_counters.reset_histories observers.call observers.call_each router.send_to_queue
    settings_table.remove_address settings_table.remove_security settings_table.set_address
    settings_table.set_security
"""


def _kernel_calls(module: str) -> Iterator[str]:
    """Yield what a module calls on parts of a kernel, such as ``mover.move``."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            path = ast.unparse(node.func).split(".")
            if "kernel" in path:
                yield ".".join(path[path.index("kernel") + 1 :])


def test_management_changes_what_clients_own_through_the_session_alone() -> None:
    """So each permission is checked in one place. A new entry of a list needs the reason that stands above it."""
    called = {name for module in MODULES if layer_of(module) == "b.management" for name in _kernel_calls(module)}
    allowed = {*MANAGEMENT_READS.split(), *MANAGEMENT_ON_QUEUES.split(), *MANAGEMENT_OF_THE_BROKER.split()}
    assert called == allowed


@pytest.mark.parametrize("package", ["embedbroker", "embedclient"])
def test_importing_a_facade_loads_no_heavy_library(package: str) -> None:
    heavy = {"cryptography", "xmltodict", "click", "rich", "asyncio", "trio_asyncio", "pytest", "xml"}
    code = f"import sys, trio; before = set(sys.modules); import {package}; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name.split(".")[0] for name in run.stdout.split()} & heavy == set()
