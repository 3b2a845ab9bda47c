"""Write the classes of `embedclient.blocking`, and `ThreadedManagement`, from the async ones: they cannot drift apart.

Run `python -m tools.blocking_source` after a change of the client's public methods. A test compares its output with
the package. Every method of the blocking classes is one call through the portal.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import get_overloads

from attrs import frozen

from embedbroker.runtime import _management
from embedclient import _client

TARGET = Path(__file__).parents[1] / "src" / "embedclient" / "blocking"


@frozen
class Twin:
    """One class to write: the async one, and attributes that only its instances have."""

    source: type
    attributes: tuple[tuple[str, str], ...] = ()
    scoped: bool = False
    """True if its life is a scope of the portal, left by `close()`."""
    iterates: str = ""
    """The type that iterating yields, if it iterates, the method that returns the next one, and one that is called
    before.
    """


MODULES: dict[str, tuple[Twin, ...]] = {
    "_messaging": (
        Twin(
            _client.MessageProducer,
            (
                ("delivery_mode", "DeliveryMode"),
                ("priority", "int"),
                ("time_to_live", "float"),
                ("delivery_delay", "float"),
                ("disable_message_id", "bool"),
                ("disable_message_timestamp", "bool"),
            ),
        ),
        Twin(_client.Receipt),
        Twin(_client.MessageConsumer, iterates="JMSMessage:receive"),
        Twin(_client.QueueBrowser, iterates="JMSMessage:next_message:start_over"),
        Twin(_client.JMSProducer),
    ),
    "_session": (Twin(_client.Session),),
    "_connection": (
        Twin(_client.Connection, (("exception_listener", "Callable[[JMSException], object] | None"),), scoped=True),
        Twin(_client.JMSContext, scoped=True),
    ),
    "_xa_resource": (Twin(_client.XAResource),),
    "_xa": (
        Twin(_client.XASession),
        Twin(_client.XAConnection, scoped=True),
        Twin(_client.XAJMSContext, scoped=True),
    ),
    "_core": (
        Twin(_client.ClientSessionFactory, scoped=True),
        Twin(_client.ClientSession),
        Twin(_client.ClientProducer),
        Twin(_client.ClientConsumer, iterates="ClientMessage:receive"),
    ),
}
WRAPPED = {twin.source.__name__: twin for twins in MODULES.values() for twin in twins}
MESSAGES = ("JMSMessage", "ClientMessage")
TEMPORARIES = ("TemporaryQueue", "TemporaryTopic")
LISTENERS = {
    "MessageListener": "Callable[[JMSMessage], object]",
    "FailoverListener": "Callable[[FailoverEventType], object]",
    "FailureListener": "Callable[[JMSException, bool], object]",
    "ExceptionListener": "Callable[[JMSException], object]",
}
# Conditions under which a method needs no thread, and what it does then.
SHORT_WAYS = {("Receipt", "wait"): ("if self.done:", "    return self._inner._call.value()")}
# Listeners that the event loop calls within a step, and does not await.
OBSERVERS = ("Callable[[Notification], None] | None",)

IMPORTS = {
    "collections.abc": "Callable Iterator Sequence",
    "contextlib": "AbstractContextManager",
    "types": "TracebackType",
    "typing": "Self TypeVar overload",
    "embedclient": "_client",
    "embedclient._client": "AcknowledgeMode Body ClientMessage ConnectionMetaData FailoverEventType",
    "embedclient.agent": "AddressState LocatorSettings Notification QueueAttributes QueueState SessionMode",
    "._connection": "Connection JMSContext",
    "._messaging": "JMSProducer MessageConsumer MessageProducer QueueBrowser",
    "._portal": "Portal",
    "._session": "Session",
    "._xa_resource": "XAResource",
    "embedclient.errors": "JMSException",
    "embedclient.model": "DeliveryMode Destination JMSMessage Progress Properties PropertyValue Queue RoutingType "
    "TemporaryQueue TemporaryTopic Topic TransportConfiguration XaCode XaFlag Xid",
}
HEADER = '''"""{title}, for threads and scripts. Generated from the async classes: change those.

Each method is one call through the portal to the async method of the same name, which documents errors in full.
"""

from __future__ import annotations

'''
TITLES = {
    "_messaging": "JMS producers, consumers and browsers",
    "_session": "The JMS session",
    "_connection": "The JMS connection and context",
    "_xa_resource": "The XA requests of one session",
    "_xa": "The JMS way into XA transactions",
    "_core": "The core layer",
}


def source_of(module: str) -> str:
    """Return the text of one module, formatted as the project formats its code."""
    body = "\n\n".join("\n".join(class_lines(twin)) + "\n" for twin in MODULES[module])
    if re.search(r"\bT\b", body):
        body = 'T = TypeVar("T")\n\n\n' + body
    imports = []
    for package, names in IMPORTS.items():
        used = [name for name in names.split() if re.search(rf"(?<![\w.\"`]){name}\b", body)]
        if used and package != f".{module}":
            imports.append(f"from {package} import {', '.join(used)}")
    text = HEADER.format(title=TITLES[module]) + "\n".join(imports) + "\n\n\n" + body
    for arguments in (["check", "--quiet", "--fix-only", "--select", "I,F401"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET / f"{module}.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def class_lines(twin: Twin) -> Iterator[str]:
    name = twin.source.__name__
    parent = WRAPPED.get(twin.source.__mro__[1].__name__)
    yield f"class {name}:" if parent is None else f"class {name}({parent.source.__name__}):"
    yield f'    """{blocking_text(inspect.getdoc(twin.source) or "", 4)}"""'
    yield ""
    leave = ", leave: Callable[[], None]" if twin.scoped else ""
    yield f"    def __init__(self, portal: Portal, inner: _client.{name}{leave}) -> None:"
    if parent is not None:
        yield f"        super().__init__(portal, inner{', leave' if twin.scoped else ''})"
        yield f"        self._inner: _client.{name} = inner"
    else:
        yield "        self._portal = portal"
        yield "        self._inner = inner"
        if twin.scoped:
            yield "        self._leave = leave"
    if parent is None:
        yield from ("", "    def __repr__(self) -> str:", "        return repr(self._inner)")
    for attribute, annotation in twin.attributes:
        yield from attribute_lines(attribute, annotation)
    for member_name, member in vars(twin.source).items():
        if member_name.startswith("_"):
            continue
        if isinstance(member, property):
            yield from property_lines(member_name, member)
        elif not inspect.isfunction(member) or (twin.scoped and member_name == "close"):
            continue
        elif member.__name__ != member_name:
            yield from ("", f"    {member_name} = {member.__name__}")
        else:
            yield from method_lines(member_name, member, SHORT_WAYS.get((name, member_name), ()))
    if twin.iterates:
        yield from iteration_lines(twin)
    if hasattr(twin.source, "close") and parent is None:
        yield from scope_lines(twin)


def attribute_lines(name: str, annotation: str) -> Iterator[str]:
    listener = "Callable" in annotation
    read = f"self._inner.{name}"
    value = "value"
    if listener:
        read, value = f"self._portal.original({read})", "self._portal.listener(value)"
    yield from ("", "    @property", f"    def {name}(self) -> {annotation}:", f"        return {read}")
    yield from ("", f"    @{name}.setter", f"    def {name}(self, value: {annotation}) -> None:")
    yield f"        self._inner.{name} = {value}"


def property_lines(name: str, member: property) -> Iterator[str]:
    assert member.fget is not None
    annotation = str(inspect.signature(member.fget).return_annotation)
    yield from ("", "    @property", f"    def {name}(self) -> {blocking_type(annotation)}:")
    if member.fget.__doc__:
        yield f'        """{blocking_text(inspect.getdoc(member.fget) or "", 8)}"""'
    if any(listener in annotation for listener in LISTENERS):
        yield f"        return self._portal.original(self._inner.{name})"
    elif annotation in WRAPPED:
        leave = ", self._portal.close" if WRAPPED[annotation].scoped else ""
        yield f"        return {annotation}(self._portal, self._inner.{name}{leave})"
    else:
        yield f"        return self._inner.{name}"


def method_lines(name: str, function: Callable[..., object], first: tuple[str, ...]) -> Iterator[str]:
    signature = inspect.signature(function)
    returned = str(signature.return_annotation)
    parameters = [
        parameter.replace(annotation=blocking_type(str(parameter.annotation)))
        if parameter.annotation is not inspect.Parameter.empty
        else parameter
        for parameter in signature.parameters.values()
    ]
    yield ""
    for variant in get_overloads(function):
        shown = inspect.signature(variant)
        yield "    @overload"
        yield f"    def {name}({parameters_text(list(shown.parameters.values()))}) -> {shown.return_annotation}: ..."
        yield ""
    yield f"    def {name}({parameters_text(parameters)}) -> {blocking_type(returned)}:"
    if function.__doc__:
        yield f'        """{blocking_text(inspect.getdoc(function) or "", 8)}"""'
    yield from (f"        {line}" for line in first)
    yield from call_lines(name, function, signature, returned)


def call_lines(
    name: str, function: Callable[..., object], signature: inspect.Signature, returned: str
) -> Iterator[str]:
    passed = [passed_argument(parameter) for parameter in list(signature.parameters.values())[1:]]
    arguments = ", ".join([f"self._inner.{name}", *passed])
    manager = re.fullmatch(r"AbstractAsyncContextManager\[(.*)\]", returned)
    opening = re.fullmatch(r"Opening\[(.*)\]", returned)
    if opening is not None and WRAPPED[opening[1]].scoped:
        manager = opening
    if manager is not None and manager[1] in WRAPPED:
        yield f"        held = self._portal.hold(self._portal.call_now({arguments}))"
        yield f"        return {manager[1]}(self._portal, held.value, held.close)"
        return
    if manager is not None:
        yield f"        return self._portal.block(self._portal.call_now({arguments}))"
        return
    if opening is not None:
        inside = ", ".join(passed)
        yield f"        opened = self._portal.call(self._portal.opening, lambda: self._inner.{name}({inside}))"
        yield f"        return {opening[1]}(self._portal, opened)"
        return
    call = "call" if inspect.iscoroutinefunction(function) else "call_now"
    result = f"self._portal.{call}({arguments})"
    if returned == "Self":
        yield from (f"        {result}", "        return self")
    elif returned in WRAPPED:
        yield f"        return {returned}(self._portal, {result})"
    elif returned.removesuffix(" | None") in MESSAGES and inspect.iscoroutinefunction(function):
        if not returned.endswith("None"):
            yield f"        return self._portal.message({result})"
            return
        yield f"        message = {result}"
        yield "        return None if message is None else self._portal.message(message)"
    elif returned in TEMPORARIES:
        yield f"        return self._portal.temporary({result})"
    elif name == "close":
        yield "        self._portal.close_part(self._inner.close)"
    elif returned == "None":
        yield f"        {result}"
    else:
        yield f"        return {result}"


def passed_argument(parameter: inspect.Parameter) -> str:
    value = parameter.name
    if parameter.annotation in OBSERVERS:
        value = f"self._portal.observer({value})"
    elif any(listener in str(parameter.annotation) for listener in LISTENERS):
        value = f"self._portal.{'listener' if 'None' in str(parameter.annotation) else 'known_listener'}({value})"
    elif str(parameter.annotation) in WRAPPED:
        value = f"{value}._inner"
    return f"{parameter.name}={value}" if parameter.kind is parameter.KEYWORD_ONLY else value


def iteration_lines(twin: Twin) -> Iterator[str]:
    value, method, *before = twin.iterates.split(":")
    yield from ("", f"    def __iter__(self) -> Iterator[{value}]:")
    yield from (f"        self.{first}()" for first in before)
    if method == "receive":  # not by calls of it: a check of `closed` in between would end without the error
        yield "        return self._portal.each(self._inner.__anext__)"
        return
    yield f"        while (message := self.{method}()) is not None:"
    yield "            yield message"


def scope_lines(twin: Twin) -> Iterator[str]:
    if twin.scoped:
        yield from (
            "",
            "    def close(self) -> None:",
            '        """Close everything made with it. Closing twice is fine."""',
        )
        yield "        self._leave()"
    yield from ("", "    def __enter__(self) -> Self:", "        return self")
    yield from (
        "",
        "    def __exit__(",
        "        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None",
        "    ) -> None:",
        "        self.close()",
    )


def blocking_type(annotation: str) -> str:
    annotation = annotation.strip("'")
    annotation = re.sub(r"^Opening\[(.*)\]$", r"\1", annotation)
    for listener, plain in LISTENERS.items():
        annotation = annotation.replace(listener, plain)
    manager = re.fullmatch(r"AbstractAsyncContextManager\[(.*)\]", annotation)
    if manager is not None:
        return manager[1] if manager[1] in WRAPPED else f"AbstractContextManager[{manager[1]}]"
    return annotation


def parameters_text(parameters: list[inspect.Parameter]) -> str:
    parts = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        text = parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {parameter.annotation}"
        if parameter.default is not parameter.empty:
            default = parameter.default
            text += f" = {f'{type(default).__name__}.{default.name}' if isinstance(default, Enum) else repr(default)}"
        parts.append(text)
    return ", ".join(parts)


def blocking_text(text: str, indent: int) -> str:
    """Return a docstring of the async class in words that fit a blocking one."""
    text = text.replace("`async with` it", "`with` it").replace("async with", "with").replace("async for", "for")
    text = text.replace("A cancelled", "An interrupted").replace("await the receipt", "wait for the receipt")
    text = text.replace("await it", "call `wait()`")
    text = text.replace("It runs inside the event loop and must not block.", "It runs in a thread, and may block.")
    lines = text.split("\n")
    block = "\n".join([lines[0], *(" " * indent + line if line else "" for line in lines[1:])])
    return block if len(lines) == 1 else block + "\n" + " " * indent


# -- management of a broker in a thread ------------------------------------------------------------------------------

MANAGEMENT_TARGET = Path(__file__).parents[1] / "src" / "embedbroker" / "runtime" / "_threaded_management.py"
MANAGEMENT_HEADER = '''"""`ThreadedManagement`: the blocking counterpart of `Management`. Generated from that class.

Each method is one call in the thread of the broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from embedbroker.config import AddressSettings, BridgeConfig, BrokerConfig, DivertConfiguration, SecuritySetting

from ._management import {names}

__all__ = ["ThreadedManagement"]

T = TypeVar("T")


class _Run(Protocol):
    def __call__(self, function: Callable[[], Awaitable[T]], /) -> T: ...


class ThreadedManagementCalls:
    """Call any attribute and operation of a running broker by name, and block."""

    def __init__(self, management: Management, run: _Run) -> None:
        self._management = management
        self._run = run

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
'''

MANAGEMENT_CLASS = '''

class Threaded{name}(Threaded{base}):
    """Do what `{name}` does, and block.{more}"""
'''
MADE_BY = """ Made by `ThreadedBroker.management`.

    Methods, arguments and errors are the same.
    """


def management_source() -> str:
    """Return the text of the module with the blocking management, formatted as the project formats its code."""
    first, *others = reversed(_management.Management.__mro__[:-1])
    body = methods_text(first) + "\n"
    for source in others:
        more = MADE_BY if source is _management.Management else ""
        body += MANAGEMENT_CLASS.format(name=source.__name__, base=source.__mro__[1].__name__, more=more)
        body += methods_text(source) + "\n"
    defined = [
        name for name, value in vars(_management).items() if getattr(value, "__module__", "") == _management.__name__
    ]
    names = sorted(name for name in defined if name == "Management" or re.search(rf"(?<![\w`]){name}\b", body))
    text = MANAGEMENT_HEADER.replace("{names}", ", ".join(names)) + body
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(MANAGEMENT_TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def methods_text(source: type) -> str:
    public = {name: function for name, function in vars(source).items() if not name.startswith("_")}
    return "\n".join(line for name, function in public.items() for line in management_lines(name, function))


def management_lines(name: str, function: Callable[..., object]) -> Iterator[str]:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    shown = parameters_text([each for each in parameters if each.kind is not each.VAR_POSITIONAL])
    passed = []
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            shown += f", *{parameter.name}: {parameter.annotation}"
            passed.append(f"*{parameter.name}")
        else:
            passed.append(passed_argument(parameter))
    call = f"self._run(lambda: self._management.{name}({', '.join(passed)}))"
    yield from ("", f"    def {name}({shown}) -> {signature.return_annotation}:")
    yield f'        """{blocking_text(inspect.getdoc(function) or "", 8)}"""'
    yield f"        {call}" if signature.return_annotation == "None" else f"        return {call}"


def main() -> None:
    for module in MODULES:
        (TARGET / f"{module}.py").write_text(source_of(module))
    MANAGEMENT_TARGET.write_text(management_source())


if __name__ == "__main__":
    main()
