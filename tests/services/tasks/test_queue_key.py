"""Actions with the same queue key run one after another, whatever happens to each of them in between."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.harness import Server
from tests.services.tasks.envelopes import ended, envelope, status, submit


@pytest.fixture(scope="module")
def admin(counting: Server) -> Iterator[httpx.Client]:
    with counting.client(counting.token()) as client:
        yield client


@pytest.fixture(params=[None, 3600], ids=["no deadline", "deadline"])
def request_fields(request: pytest.FixtureRequest) -> dict[str, Any]:
    fields: dict[str, Any] = {"queue_key": uuid4().hex}
    if request.param is not None:
        fields["deadline"] = (datetime.now(UTC) + timedelta(seconds=request.param)).isoformat()
    return fields


def test_one_that_asks_lets_the_next_run_and_queues_again_behind_it(
    admin: httpx.Client, outside: Path, request_fields: dict[str, Any]
) -> None:
    gate = f"gate-{uuid4().hex[:8]}"
    asks = submit(admin, envelope("count.ask", request=request_fields))["task_id"]
    ended(admin, asks, within=("input_required",))
    runs = submit(admin, envelope("count.wait", {"name": gate}, request=request_fields))["task_id"]
    ended(admin, runs, within=("in_progress",))

    answered = admin.post(f"/api/tasks/{asks}/input", json={"input": {"answer": "red"}})
    behind = submit(admin, envelope("count.nothing", request=request_fields))["task_id"]
    other = ended(admin, submit(admin, envelope("count.nothing"))["task_id"])
    waiting = [status(admin, task_id)["state"] for task_id in (asks, runs, behind)]
    (outside / gate).write_text("go\n")
    done = [ended(admin, task_id) for task_id in (runs, asks, behind)]

    assert answered.status_code == 200, answered.text
    assert other["state"] == "succeeded"
    assert waiting == ["queued", "in_progress", "queued"]
    assert [view["state"] for view in done] == ["succeeded"] * 3
    ends = [view["updated_at"] for view in done]
    assert ends == sorted(ends)


def test_a_retry_queues_behind_the_others_of_its_key(
    admin: httpx.Client, outside: Path, request_fields: dict[str, Any]
) -> None:
    gate = f"gate-{uuid4().hex[:8]}"
    fails = submit(admin, envelope("count.refuse", request=request_fields))["task_id"]
    ended(admin, fails)
    runs = submit(admin, envelope("count.wait", {"name": gate}, request=request_fields))["task_id"]
    ended(admin, runs, within=("in_progress",))

    retried = admin.post(f"/api/tasks/{fails}/retry", json={})
    ended(admin, submit(admin, envelope("count.nothing"))["task_id"])
    waiting = status(admin, fails)["state"]
    (outside / gate).write_text("go\n")
    ended(admin, runs)

    assert retried.status_code in (200, 201), retried.text
    assert waiting == "queued"
    assert ended(admin, fails)["state"] == "failed"
