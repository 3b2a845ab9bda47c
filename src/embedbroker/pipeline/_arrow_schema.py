"""The columns that Spark expects, with their Arrow types.

Responsible for rejecting columns and types that no message has. Does not convert values. The types are translated here,
and not by Spark's function, which is internal and changes from release to release.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types

from ._body_columns import read_objects
from ._option_reader import OptionError
from ._options import SourceOptions
from ._schema import COLUMNS, VALUE_COLUMN

__all__ = ["PLAIN_TYPES", "arrow_schema"]

PLAIN_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(schema: types.StructType, options: SourceOptions) -> pa.Schema:
    """Return the schema in Arrow's types.

    Raises:
        OptionError: a column or its type, as passed to `schema(...)`, does not match those of messages.
    """
    wanted = options.with_columns(schema.names).columns
    for field, column in zip(schema.fields, wanted, strict=True):
        kind = field.dataType.simpleString()
        if field.name != column or (column != VALUE_COLUMN and kind != COLUMNS[column]):
            expected = COLUMNS.get(column, "struct")
            raise OptionError(f"column {field.name!r} of type {kind} is {column!r} of type {expected}")
    found = pa.schema([pa.field(field.name, _arrow_type(field.dataType)) for field in schema.fields])
    if VALUE_COLUMN in found.names:
        _check_value_type(found.field(VALUE_COLUMN).type)
    return found


def _arrow_type(kind: types.DataType) -> pa.DataType:
    match kind:
        case types.StructType():
            return pa.struct([pa.field(field.name, _arrow_type(field.dataType)) for field in kind.fields])
        case types.ArrayType():
            return pa.list_(_arrow_type(kind.elementType))
        case types.MapType():
            return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
        case types.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case _:
            plain = PLAIN_TYPES.get(kind.simpleString())
            if plain is None:
                raise OptionError(f"option 'jsonSchema': {kind.simpleString()} is not read from JSON")
            return plain


def _check_value_type(kind: pa.DataType) -> None:
    if not pa.types.is_struct(kind):
        raise OptionError(f"option 'jsonSchema' is a struct, not {kind}")
    try:
        read_objects(["{}"], kind)
    except pa.ArrowException as error:
        raise OptionError(f"option 'jsonSchema': JSON is not read into {kind}: {error}") from error
