from typing import Any

import httpx
import pytest

from tests.conformance.vectors import Run, read_vectors

RUNS = [(vector, binding) for vector in read_vectors() for binding in vector["bindings"]]


@pytest.mark.req("RAD-H1-1")
@pytest.mark.sdk
@pytest.mark.parametrize(("vector", "binding"), RUNS, ids=[f"{vector['name']} ({binding})" for vector, binding in RUNS])
def test_a_vector(callers: dict[str, httpx.Client], vector: dict[str, Any], binding: str) -> None:
    with Run(binding, callers) as run:
        for number, step in enumerate(vector["steps"], 1):
            assert run.step(step) == [], f"step {number}"
