"""The official schemas of the versions before 1.0, where they are found."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft7Validator

from tests.doors.a2a.schema import VECTORS

MISSING = f"the official schemas of A2A 0.1 and 0.3 are not in {VECTORS}; name their folder in DRAGOMAN_A2A_VECTORS"


def found(version: str) -> bool:
    return _file(version).is_file()


def check(version: str, name: str, value: Any) -> None:
    """That a value is what this version calls by this name, such as `Task`."""
    if found(version):
        errors = [f"{error.json_path}: {error.message[:300]}" for error in _validator(version, name).iter_errors(value)]
        assert errors == []


def _file(version: str) -> Any:
    return VECTORS / f"a2a-v{version}.0.schema.json"


@cache
def _validator(version: str, name: str) -> Draft7Validator:
    schema = json.loads(_file(version).read_text())
    place = "$defs" if "$defs" in schema else "definitions"
    return Draft7Validator({place: schema[place], "$ref": f"#/{place}/{name}"})
