"""Many rows as one parameter: the driver would look at every value of an array for each column."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson


def document(rows: Sequence[Any] | Mapping[str, Any], *, other: Callable[[Any], Any] = str) -> str:
    """Return the rows as JSON, for `json_to_recordset($1::text::json)`: mappings or dataclasses, ids and times as is.

    `other` returns what JSON has for a value of a type that it does not know.
    """
    # The driver's ids are a class of their own, which only `str` knows: `other` has to know them too.
    return orjson.dumps(rows, default=other).decode()
