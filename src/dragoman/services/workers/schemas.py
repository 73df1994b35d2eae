"""What an action takes, for those who have to give it."""

from functools import lru_cache
from typing import Any

from pydantic import BaseModel


@lru_cache(maxsize=1000)
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model; made once for as long as it is asked for."""
    return model.model_json_schema()
