"""The columns that Spark expects, with the types that Arrow has for them.

Responsible for refusing columns and types that no message has. Refuses to convert anything.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ._body_columns import read_objects
from ._option_reader import OptionError
from ._options import SourceOptions
from ._schema import COLUMNS, VALUE_COLUMN

__all__ = ["arrow_schema"]


def arrow_schema(schema: StructType, options: SourceOptions) -> pa.Schema:
    """The schema in Arrow's types.

    Raises:
        OptionError: a column or its type, as somebody gave it to `schema(...)`, is not what messages have.
    """
    wanted = options.with_columns(schema.names).columns
    for field, column in zip(schema.fields, wanted, strict=True):
        kind = field.dataType.simpleString()
        if field.name != column or (column != VALUE_COLUMN and kind != COLUMNS[column]):
            raise OptionError(
                f"column {field.name!r} of type {kind} is {column!r} of type {COLUMNS.get(column, 'struct')}"
            )
    found = to_arrow_schema(schema)
    if VALUE_COLUMN in found.names:
        _check_value_type(found.field(VALUE_COLUMN).type)
    return found


def _check_value_type(kind: pa.DataType) -> None:
    if not pa.types.is_struct(kind):
        raise OptionError(f"option 'jsonSchema' is a struct, not {kind}")
    try:
        read_objects(["{}"], kind)
    except pa.ArrowException as error:
        raise OptionError(f"option 'jsonSchema': JSON is not read into {kind}: {error}") from error
