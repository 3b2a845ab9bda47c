"""The declaration of packets, and the one loop that encodes and the one that decodes them all.

Responsible for field kinds, presence rules (a version gate, an optional tail, a condition on an earlier field) and for
packets as immutable values. Does not depend on any particular packet.

A packet class lists its fields in wire order::

    class SessionConsumerFlowCredit(Packet):
        TYPE = PacketType.SESS_FLOWTOKEN
        consumer_id: int = i64()
        credits: int = i32()

Packets are tuples under their field names, not attrs classes, for two reasons measured on the machines this runs on. An
attrs class takes 290 us to create (a hundred of them would cost more than the rest of the import), this kind takes 10.
And a decoded body becomes a packet without a call per field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final, Generic, NoReturn, Self, TypeVar, cast, dataclass_transform

from ...errors import LocalProtocolError
from ...model import TransportConfiguration, Xid
from .._buffer import (
    Reader,
    append_bytes,
    append_connector,
    append_simple_string,
    append_string,
    append_xid,
)
from ._packet_type import SINCE

T = TypeVar("T")
R = TypeVar("R", bound="Record")

_MISSING: Final = object()

# No gate lies outside these versions.
VERSION_MIN: Final = 121
VERSION_MAX: Final = 136


class Field:
    """A declared field: its encoding, and the condition of its presence."""

    __slots__ = ("absent", "default", "kind", "name", "since", "tail", "when")

    def __init__(
        self, kind: Kind[object], default: object, since: int, tail: bool, when: tuple[str, object] | None
    ) -> None:
        self.name = ""
        self.kind = kind
        self.default = default
        # The value that a decoder fills in.
        self.absent = (False if kind.letter == "?" else None) if default is _MISSING else default
        self.since = since
        self.tail = tail
        self.when = when


class Kind(Generic[T]):
    """A wire type. Calling it declares a field of that type.

    ``default`` serves constructors, and decoders where the field is absent (without one: None, or False). ``since`` is
    the version that brought the field; a gated field is followed by gated fields only. ``tail`` begins a group that
    older peers omit: a body may end before it. ``when`` names an earlier field and the value it must have.
    """

    __slots__ = ("append", "letter", "nullable", "omits_none", "read")

    def __init__(
        self,
        read: Callable[[Reader], T],
        append: Callable[[bytearray, T], None],
        letter: str = "",
        omits_none: bool = False,
        nullable: _Nullable[T] | None = None,
    ) -> None:
        self.read = read
        self.append = append
        self.letter = letter  # of struct, for the fixed kinds
        self.omits_none = omits_none
        self.nullable = nullable

    def __call__(
        self,
        *,
        default: T = cast(T, _MISSING),  # noqa: B008  # a marker, not a mutable value
        since: int = 0,
        tail: bool = False,
        when: tuple[str, object] | None = None,
    ) -> T:
        return cast(T, Field(cast(Kind[object], self), default, since, tail, when))


class _Nullable(Generic[T]):
    """The parts of a kind with a presence byte in front: one zero byte stands for None."""

    __slots__ = ("append_value", "present", "read_value")

    def __init__(self, kind: Kind[T], present: int) -> None:
        self.read_value, self.append_value = kind.read, kind.append
        #: The byte in front of a value.
        self.present = present


def _fixed(letter: str, read: Callable[[Reader], T]) -> Kind[T]:
    pack = Struct(">" + letter).pack

    def append(out: bytearray, value: T) -> None:
        out += pack(value)

    return Kind(read, append, letter)


def _append_flag(out: bytearray, value: bool) -> None:
    out.append(0xFF if value else 0)


def nullable(kind: Kind[T], present: int) -> Kind[T | None]:
    """Return the kind with a presence byte in front, written as ``present`` and read as any non-zero byte."""
    read_value, append_value = kind.read, kind.append

    def read(reader: Reader) -> T | None:
        return read_value(reader) if reader.boolean() else None

    def append(out: bytearray, value: T | None) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(present)
            append_value(out, value)

    return Kind(read, append, nullable=cast("_Nullable[T | None]", _Nullable(kind, present)))


def omittable(kind: Kind[T]) -> Kind[T | None]:
    """Return the kind for the end of a body, where None means that the field is not written at all."""
    return Kind(
        cast(Callable[[Reader], T | None], kind.read),
        cast(Callable[[bytearray, T | None], None], kind.append),
        omits_none=True,
    )


def sequence(kind: Kind[T], entry_size_min: int) -> Kind[tuple[T, ...]]:
    """Return a 32-bit count and that many entries."""
    read_entry, append_entry = kind.read, kind.append
    append_count = i32.append

    def read(reader: Reader) -> tuple[T, ...]:
        return tuple([read_entry(reader) for _ in range(reader.count(entry_size_min))])

    def append(out: bytearray, value: tuple[T, ...]) -> None:
        append_count(out, len(value))
        for entry in value:
            append_entry(out, entry)

    return Kind(read, append)


def _append_raw(out: bytearray, value: bytes) -> None:
    out += value


i8 = _fixed("b", Reader.i8)
i32 = _fixed("i", Reader.i32)
i64 = _fixed("q", Reader.i64)
f64 = _fixed("d", Reader.f64)
flag: Kind[bool] = Kind(Reader.boolean, _append_flag, "?")
simple_string: Kind[str] = Kind(Reader.simple_string, append_simple_string)
string: Kind[str] = Kind(Reader.string, append_string)
counted_bytes: Kind[bytes] = Kind(Reader.counted_bytes, append_bytes)
rest: Kind[bytes] = Kind(Reader.rest, _append_raw)
connector: Kind[TransportConfiguration] = Kind(Reader.connector, append_connector)
xid: Kind[Xid] = Kind(Reader.xid, append_xid)
optional_flag = nullable(flag, 0xFF)
optional_i32 = nullable(i32, 0xFF)
optional_i64 = nullable(i64, 0xFF)
optional_simple_string = nullable(simple_string, 1)
optional_string = nullable(string, 1)
optional_connector = nullable(connector, 0xFF)
omittable_i64 = omittable(i64)
simple_strings = sequence(simple_string, 4)
routing_types = sequence(i8, 1)
xids = sequence(xid, 12)


def of_kind(kind: Kind[T]) -> T:
    """Declare a field of a kind that is used in one place only."""
    return kind()


def _never_read(reader: Reader) -> NoReturn:
    raise AssertionError("the packet reads this field itself")


def _never_append(out: bytearray, value: object) -> NoReturn:
    raise AssertionError("the packet appends this field itself")


def by_packet(kind: type[T]) -> T:
    """Declare a field of the given Python type that the packet class encodes and decodes itself."""
    return cast(T, Field(Kind(_never_read, _never_append), _MISSING, 0, False, None))


class _Step:
    """A run of fixed fields read by one struct, or one field of another kind."""

    __slots__ = (
        "field",
        "first",
        "flags",
        "last",
        "layout",
        "tail",
        "when_at",
        "when_value",
        "write_layout",
    )

    def __init__(self, names: tuple[str, ...], fields: list[Field], first: int) -> None:
        leader = fields[0]
        self.field = leader
        self.first = first
        self.last = first + len(fields)
        self.tail = leader.tail
        self.when_at = -1 if leader.when is None else names.index(leader.when[0])
        self.when_value = None if leader.when is None else leader.when[1]
        letters = "".join(field.kind.letter for field in fields)
        self.layout = Struct(">" + letters) if letters else None
        # True travels as 0xFF, which is -1 in a signed byte.
        self.write_layout = Struct(">" + letters.replace("?", "b")) if letters else None
        self.flags = [index for index, field in enumerate(fields) if field.kind.letter == "?"]


class Plan:
    """The form of one packet class in one version: the steps, and the defaults of the fields the version lacks."""

    __slots__ = ("fixed", "fixed_write", "missing", "steps")

    def __init__(self, names: tuple[str, ...], fields: tuple[Field, ...], version: int) -> None:
        # Nothing agreed yet (0) counts as 130: peers of any age read or tolerate that form.
        present = [field for field in fields if field.since <= (version or 130)]
        assert present == list(fields[: len(present)]), "a gated field is followed by gated fields only"
        self.missing = tuple(field.absent for field in fields[len(present) :])
        self.steps: list[_Step] = []
        run: list[Field] = []
        for index, field in enumerate(present):
            joins = run and field.kind.letter and not field.tail and field.when is None and run[-1].when is None
            if run and not (joins and run[-1].kind.letter):
                self.steps.append(_Step(names, run, index - len(run)))
                run = []
            run.append(field)
        if run:
            self.steps.append(_Step(names, run, len(present) - len(run)))
        only = self.steps[0] if len(self.steps) == 1 else None
        # The whole body is one struct; the same to write it, when no flag needs another letter.
        self.fixed = only.layout if only is not None and not only.tail and not self.missing else None
        self.fixed_write = None if only is None or only.flags or self.missing else only.write_layout


class _Plans(dict[int, Plan]):
    """The forms of one record by version: each packet looks one up."""

    record_class: type[Record]

    def __missing__(self, version: int) -> Plan:
        return self.record_class.plan(version)


@dataclass_transform(
    frozen_default=True,
    field_specifiers=(
        i8,
        i32,
        i64,
        f64,
        flag,
        simple_string,
        string,
        counted_bytes,
        rest,
        connector,
        xid,
        optional_flag,
        optional_i32,
        optional_i64,
        optional_simple_string,
        optional_string,
        optional_connector,
        omittable_i64,
        simple_strings,
        routing_types,
        xids,
        by_packet,
        of_kind,
    ),
)
class _PacketClass(type):
    """Turn the declared fields into read-only attributes over the tuple."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> _PacketClass:
        names = tuple(key for key, value in namespace.items() if isinstance(value, Field))
        fields = []
        for index, key in enumerate(names):
            field = namespace[key]
            assert isinstance(field, Field)
            field.name = key
            fields.append(field)
            namespace[key] = property(itemgetter(index))
        namespace["__slots__"] = ()
        namespace["__match_args__"] = names
        namespace["FIELDS"] = tuple(fields)
        plans = namespace["_plans"] = _Plans()
        namespace["_count"] = len(names)
        namespace["_since"] = SINCE.get(cast(int, namespace.get("TYPE")), 0)
        namespace["_defaults"] = {field.name: field.default for field in fields}
        made = super().__new__(cls, name, bases, namespace)
        plans.record_class = cast("type[Record]", made)
        return made


class Record(tuple[object, ...], metaclass=_PacketClass):
    """A list of fields as an immutable value: a packet, or a part of one. Equal when class and fields are equal."""

    FIELDS: ClassVar[tuple[Field, ...]]
    _plans: ClassVar[_Plans]
    # Number of fields, and the version that brought the packet.
    _count: ClassVar[int]
    _since: ClassVar[int]
    _defaults: ClassVar[dict[str, object]]

    def __new__(cls, *args: object, **fields: object) -> Self:
        given_count, count = len(args), cls._count
        if given_count == count and not fields:
            return tuple.__new__(cls, args)
        names: tuple[str, ...] = cls.__match_args__
        if given_count > count:
            raise TypeError(f"{cls.__name__} has {count} fields, {given_count} were given")
        given = {**cls._defaults, **fields}
        names = names[given_count:]
        values = [given[name] for name in names]
        # Compared by identity: a value may be of any class.
        for name, value in zip(names, values, strict=True):
            if value is _MISSING:
                raise TypeError(f"{cls.__name__} needs {name}")
        if fields and not fields.keys() <= set(names):
            unknown = sorted(fields.keys() - set(names))
            raise TypeError(f"{cls.__name__} has no field {unknown}, or it was given twice")
        return tuple.__new__(cls, (*args, *values))

    def __getnewargs__(self) -> tuple[object, ...]:
        return tuple(self)

    def replace(self, **changes: object) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**dict(zip(self.__match_args__, self, strict=True)), **changes})

    def __bool__(self) -> bool:
        return True  # without fields it is still a packet

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(self)))

    def __repr__(self) -> str:
        # Errors and logs show packets, which must not expose a password.
        shown = {name: "***" if name == "password" and value else value for name, value in self._named()}
        fields = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({fields})"

    def _named(self) -> Iterator[tuple[str, object]]:
        names: tuple[str, ...] = self.__match_args__
        return zip(names, self, strict=True)

    @classmethod
    def plan(cls, version: int) -> Plan:
        """Return the form of the record in ``version``."""
        # A peer may claim any version; the number of kept plans must not grow with its claims.
        version = version and max(VERSION_MIN, min(version, VERSION_MAX))
        plan = cls._plans.get(version)
        if plan is None:
            plan = cls._plans[version] = Plan(cls.__match_args__, cls.FIELDS, version)
        return plan

    @classmethod
    def read_body(cls, reader: Reader, version: int) -> Self:
        """Decode a body. Raise RemoteProtocolError. Bytes behind the known fields are left alone."""
        plan = cls._plans[version]
        values: list[object] = []
        for step in plan.steps:
            if step.tail and reader.position == reader.end:
                values.extend(field.absent for field in cls.FIELDS[step.first :])
                return tuple.__new__(cls, values)
            if step.when_at >= 0 and values[step.when_at] != step.when_value:
                values.append(step.field.absent)
            elif step.layout is not None:
                values += reader.unpack(step.layout)
            else:
                kind, position = step.field.kind, reader.position
                nullable = kind.nullable
                if nullable is None or position >= reader.end:
                    values.append(kind.read(reader))
                else:
                    # Most packets have several such fields, and most of these are absent.
                    reader.position = position + 1
                    values.append(nullable.read_value(reader) if reader.buffer[position] else None)
        values += plan.missing
        return tuple.__new__(cls, values)

    def append_body(self, out: bytearray, version: int) -> None:
        """Encode the body. Raise LocalProtocolError for values that do not fit."""
        try:
            for step in self._plans[version].steps:
                if step.when_at >= 0 and self[step.when_at] != step.when_value:
                    continue
                if step.write_layout is not None:
                    values = list(self[step.first : step.last])
                    for index in step.flags:
                        values[index] = -1 if values[index] else 0
                    out += step.write_layout.pack(*values)
                    continue
                value, kind = self[step.first], step.field.kind
                nullable = kind.nullable
                if nullable is None:
                    if value is None and kind.omits_none:
                        return
                    kind.append(out, value)
                elif value is None:
                    out.append(0)
                else:
                    out.append(nullable.present)
                    nullable.append_value(out, value)
        except (StructError, AttributeError, TypeError, OverflowError) as error:
            raise LocalProtocolError(f"{self!r} cannot be encoded: {error}") from error


class Packet(Record):
    """The content of a frame."""

    TYPE: ClassVar[int]


def record(record_class: type[R]) -> Kind[R]:
    """Return the kind of a record inside a packet."""

    def read(reader: Reader) -> R:
        return record_class.read_body(reader, 0)

    def append(out: bytearray, value: R) -> None:
        value.append_body(out, 0)

    return Kind(read, append)
