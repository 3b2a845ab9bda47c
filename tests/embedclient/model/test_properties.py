"""Property mappings: inferred and chosen types, order, equality, refusals."""

from __future__ import annotations

import pytest

from embedclient.model import Properties, PropertyType, PropertyValue, TypedValue


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, PropertyType.NULL),
        (True, PropertyType.BOOLEAN),
        (0, PropertyType.INT),
        (2**31 - 1, PropertyType.INT),
        (-(2**31), PropertyType.INT),
        (2**31, PropertyType.LONG),
        (0.5, PropertyType.DOUBLE),
        ("x", PropertyType.STRING),
        (b"x", PropertyType.BYTES),
    ],
)
def test_plain_values_get_the_obvious_type(value: PropertyValue, kind: PropertyType) -> None:
    properties = Properties()
    properties["name"] = value
    assert properties.type_of("name") is kind
    assert properties["name"] == value


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        (128, PropertyType.BYTE, ValueError),
        (-32769, PropertyType.SHORT, ValueError),
        (2**31, PropertyType.INT, ValueError),
        (2**63, PropertyType.LONG, ValueError),
        (True, PropertyType.INT, TypeError),
        ("x", PropertyType.INT, TypeError),
        (1, PropertyType.BOOLEAN, TypeError),
        ("xy", PropertyType.CHAR, TypeError),
        ("\U0001d11e", PropertyType.CHAR, TypeError),
        (None, PropertyType.STRING, TypeError),
        ("x", PropertyType.BYTES, TypeError),
        (True, PropertyType.DOUBLE, TypeError),
        (0, PropertyType.NULL, TypeError),
    ],
)
def test_values_that_do_not_fit_their_type_leave_the_mapping_alone(
    value: PropertyValue, kind: PropertyType, error: type[Exception]
) -> None:
    properties = Properties({"name": "old"})
    with pytest.raises(error):
        properties.set("name", value, kind)
    assert properties.items() == [("name", "old")]


def test_an_integer_beyond_64_bits_and_other_objects_are_refused() -> None:
    properties = Properties()
    with pytest.raises(ValueError, match="LONG"):
        properties["name"] = 2**63
    with pytest.raises(TypeError, match="list"):
        properties["name"] = []  # type: ignore[assignment]
    assert len(properties) == 0


def test_types_are_part_of_equality_and_order_is_not() -> None:
    assert Properties({"a": 1, "b": 2}) == Properties({"b": 2, "a": 1})
    other = Properties()
    other.set("a", 1, PropertyType.LONG)
    assert other != Properties({"a": 1})
    assert other != {"a": 1}


def test_the_mapping_keeps_order_and_types() -> None:
    properties = Properties([("z", 1), ("a", "x")])
    properties.set("b", 7, PropertyType.BYTE)
    assert list(properties) == list(properties.keys()) == ["z", "a", "b"]
    assert properties.values() == [1, "x", 7]
    assert dict(properties.typed_items())["b"] == TypedValue(7, PropertyType.BYTE)
    assert next(iter(properties.typed_values())) == TypedValue(1, PropertyType.INT)
    assert "a" in properties and "c" not in properties
    assert properties.get("c", 5) == 5
    copy = properties.copy()
    assert copy.pop("z") == 1
    assert copy.pop("z", 9) == 9
    del copy["a"]
    assert copy.items() == [("b", 7)] and len(properties) == 3
    copy.update(properties)
    assert copy.type_of("b") is PropertyType.BYTE and len(copy) == 3
    copy.update({"new": True})
    assert copy["new"] is True
    copy.clear()
    assert not copy
    assert repr(properties) == "Properties({'z': 1, 'a': 'x', 'b': 7})"
    with pytest.raises(KeyError):
        properties["missing"]
    with pytest.raises(TypeError):
        hash(properties)
