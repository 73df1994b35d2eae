"""A task that was handed over, from its envelope to its end, as REST sees it."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import Server
from tests.services.tasks.envelopes import ended, envelope, submit


@pytest.fixture(scope="module")
def admin(counting: Server) -> Any:
    with counting.client(counting.token()) as client:
        yield client


def test_a_task_goes_through_every_state_and_each_step_is_in_its_history(admin: httpx.Client) -> None:
    made = submit(admin, envelope())

    view = ended(admin, made["task_id"])

    steps = [(step["from"], step["to"]) for step in view["history"]]
    assert steps == [
        (None, "requested"),
        ("requested", "validated"),
        ("validated", "queued"),
        ("queued", "in_progress"),
        ("in_progress", "succeeded"),
    ]
    assert view["history"][3]["worker"] == "counting"
    assert [step["seq"] for step in view["history"]] == [1, 2, 3, 4, 5]
    assert (view["state"], view["attempt"], view["correlation_id"]) == ("succeeded", 1, "corr-1")
    assert view["result"] == {"attempt": 1}


def test_an_envelope_with_everything_wrong_hears_of_everything_and_nothing_is_queued(admin: httpx.Client) -> None:
    before = admin.get("/api/tasks").json()["data"]
    given = envelope("not an action", idempotency_key="")
    del given["actor"], given["matter"]["id"]

    answer = admin.post("/api/tasks", json=given)

    assert answer.status_code == 400, answer.text
    fields = {error["field"] for error in answer.json()["errors"]}
    assert fields == {"actor", "action", "matter.id", "idempotency_key"}
    assert admin.get("/api/tasks").json()["data"] == before


def test_the_same_key_is_the_same_task_and_another_body_a_conflict(admin: httpx.Client, outside: Path) -> None:
    given = envelope("count.once", {"name": "same-key"})

    first, second = submit(admin, given), submit(admin, given | {"request": {}})
    other = admin.post("/api/tasks", json=given | {"input": {"name": "other"}})

    assert (first["replayed"], second["replayed"]) == (False, True)
    assert first["task_id"] == second["task_id"]
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert other.json()["details"]["task_id"] == first["task_id"]
    ended(admin, first["task_id"])
    assert len((outside / "same-key").read_text().splitlines()) == 1


def test_attempts_that_fail_are_kept_and_end_in_the_dead_letter(admin: httpx.Client) -> None:
    made = submit(admin, envelope("count.never"))

    view = ended(admin, made["task_id"])

    assert (view["state"], view["attempt"], view["max_attempts"]) == ("dead_letter", 3, 3)
    assert [(one["attempt"], one["worker"], one["outcome"]) for one in view["attempts"]] == [
        (1, "counting", "failed"),
        (2, "counting", "failed"),
        (3, "counting", "failed"),
    ]
    assert {one["error"]["code"] for one in view["attempts"]} == {"UPSTREAM_UNAVAILABLE"}
