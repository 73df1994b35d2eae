"""Many rows as one parameter: the driver would look at every value of an array for each column."""

from collections.abc import Sequence
from typing import Any

import orjson


def document(rows: Sequence[Any]) -> str:
    """The rows as JSON, for `json_to_recordset($1::text::json)`; mappings or dataclasses, ids and times as they are."""
    # The driver's ids are a class of their own, which only `str` knows.
    return orjson.dumps(rows, default=str).decode()
