"""JSON schemas of the inputs of actions."""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel


@lru_cache(maxsize=1000)
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model; cached."""
    return model.model_json_schema()
