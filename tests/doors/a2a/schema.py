"""The schema of A2A 1.0: every answer in these tests is checked against it."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.doors.a2a.schema_of_types import check_by_types

ROOT = Path(__file__).parents[3]
NAMED = os.environ.get("DRAGOMAN_A2A_VECTORS")
VECTORS = Path(NAMED or ROOT.parent / "shared" / "a2a")
MISSING = f"the official A2A schemas and vectors are not in {VECTORS}; name their folder in DRAGOMAN_A2A_VECTORS"


def found() -> bool:
    """Whether they are there; a run that names their folder does not go on without them."""
    there = (VECTORS / "a2a-v1.0.schema.json").is_file() and (VECTORS / "suite.acts.yaml").is_file()
    if NAMED and not there:
        raise FileNotFoundError(MISSING)
    return there


def check(name: str, value: Any) -> None:
    """That a value is what the protocol calls by this name, such as `Task`.

    By the types of the SDK, which are generated from the protocol's own definition, wherever the suite runs; and by the
    official schema, where it is found.
    """
    check_by_types(name, value)
    if found():
        errors = [f"{error.json_path}: {error.message[:300]}" for error in _validator(name).iter_errors(value)]
        assert errors == []


@cache
def _validator(name: str) -> Draft202012Validator:
    definitions = json.loads((VECTORS / "a2a-v1.0.schema.json").read_text())["definitions"]
    by_name = {title.replace(" ", ""): schema for title, schema in definitions.items()}
    resources = [
        (f"{prefix}.{title}.jsonschema.json", Resource.from_contents(schema, default_specification=DRAFT202012))
        for title, schema in by_name.items()
        for prefix in ("lf.a2a.v1", "google.protobuf")
    ]
    return Draft202012Validator(by_name[name], registry=Registry().with_resources(resources))
