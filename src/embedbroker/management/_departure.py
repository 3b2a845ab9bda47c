"""Operations of a scale-down: at the broker that leaves, and at the one that gets its messages."""

from __future__ import annotations

from ._registry import Call, Kind, ManagementRefused, Operation, Parameter, done

__all__ = ["DEPARTURE_OPERATIONS"]

# Duplicate ids of bridges have a cache of this name, in front of that of the address.
_OF_BRIDGES = "BRIDGE."


def _scale_down(call: Call, connector: str | None) -> None:
    connectors, departure = call.kernel.bridges.connectors, call.broker.departure
    if connector and connector not in connectors:
        names = ", ".join(sorted(connectors)) or "none"
        raise ManagementRefused(f"there is no connector {connector!r}; connectors of this broker: {names}")
    assert departure is not None
    refusal = departure.scale_down(connectors[connector] if connector else None)
    if refusal is not None:
        raise ManagementRefused(refusal)


def _adopt_duplicate_ids(call: Call, address: str | None, ids: list[object] | None) -> None:
    name, values = address or "", ids or []
    prefix = b""
    if name.startswith(_OF_BRIDGES):
        name, prefix = name.removeprefix(_OF_BRIDGES), _OF_BRIDGES.encode()
    encoded = [prefix + str(value).encode("utf-8", "surrogateescape") for value in values]
    done(call.session.addresses.adopt_duplicate_ids(name, encoded))


DEPARTURE_OPERATIONS = (
    Operation(
        "scaleDown",
        (Parameter("connector", Kind.TEXT),),
        "void",
        _scale_down,
        "Move everything to the broker of a connector, then stop; null: the choice of the policy.",
        changes=True,
    ),
    Operation(
        "updateDuplicateIdCache",
        (Parameter("address", Kind.TEXT), Parameter("ids", Kind.LIST)),
        "void",
        _adopt_duplicate_ids,
        "Bring duplicate ids into force that another broker has seen.",
        changes=True,
    ),
)
