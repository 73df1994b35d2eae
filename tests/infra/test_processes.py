"""Several processes are one server: to those who count, to those who are counted, and when one of them dies."""

import os
import resource
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.backstage import add_tenant, children_of, metrics
from tests.harness import Server, wait_for
from tests.minutes import in_one_minute
from tests.patience import PATIENCE_S

USER = 20
READY = 'dragoman_http_requests_total{method="GET",route="/.well-known/jwks.json",status="200"}'


@pytest.fixture(scope="module")
def crew() -> Iterator[Server]:
    with Server({"DRAGOMAN_LIMITS__USER_PER_MIN": str(USER)}, "--workers", "2") as running:
        wait_for(lambda: served_by_all(running), "both processes")
        yield running


def served_by_all(server: Server) -> bool:
    """Whether every process has said that it serves."""
    started = {line["message"] for line in server.log_lines() if "Started server process" in line["message"]}
    return all(f"Started server process [{pid}]" in started for pid in children_of(server))


def ask(server: Server, path: str, token: str | None = None) -> int:
    """Over a connection of its own, so that any process may take it."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.get(f"{server.url}{path}", headers=headers, timeout=PATIENCE_S).status_code


@pytest.mark.req("GW-102", "GW-010")
@in_one_minute
def test_processes_share_one_count_to_the_last_request(crew: Server) -> None:
    token = crew.token(tenant=add_tenant(crew))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask(crew, "/api/me", token), range(3 * USER)))

    assert found.count(200) == USER
    assert found.count(429) == 2 * USER


@pytest.mark.req("GW-408")
def test_metrics_are_the_sum_whichever_process_answers(crew: Server) -> None:
    before = metrics(crew).get(READY, 0)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: ask(crew, "/.well-known/jwks.json"), range(40))) == {200}

    for _ in range(6):
        found = metrics(crew)
        assert found[READY] == before + 40
        assert found["dragoman_limits_degraded"] == 0
        assert any(name.startswith("dragoman_limit_checks_total") for name in found)


def test_a_killed_process_is_replaced_and_what_it_counted_stays(crew: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ask(crew, "/.well-known/jwks.json"), range(20)))
    before = metrics(crew)[READY]
    victim, survivor = children_of(crew)

    os.kill(victim, signal.SIGKILL)

    wait_for(lambda: victim not in (now := children_of(crew)) and len(now) == 2, "a replacement")
    assert survivor in children_of(crew)
    wait_for(lambda: served_by_all(crew), "the replacement's first request")
    assert {ask(crew, "/ready") for _ in range(10)} == {200}
    assert metrics(crew)[READY] == before
    (line,) = [line for line in crew.log_lines() if line["message"] == "server process ended; starting another"]
    assert (line["pid"], line["status"]) == (victim, -signal.SIGKILL)


def test_a_process_that_cannot_be_started_is_started_when_it_can(crew: Server) -> None:
    """The parent is out of descriptors for a while."""
    wait_for(lambda: served_by_all(crew), "both processes")
    victim, survivor = children_of(crew)
    limits = resource.prlimit(crew.pid, resource.RLIMIT_NOFILE)

    resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        os.kill(victim, signal.SIGKILL)
        # Twice: one that is tried again has survived the first time.
        wait_for(lambda: len(failed_starts(crew)) > 1, "a second failure")
        alone = children_of(crew)
    finally:
        resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, limits)

    wait_for(lambda: len(children_of(crew)) == 2 and served_by_all(crew), "a replacement")
    assert alone == [survivor]
    assert all("Too many open files" in str(line) for line in failed_starts(crew))


def failed_starts(server: Server) -> list[dict[str, Any]]:
    return [line for line in server.log_lines() if line["message"] == "server.process_failed"]


def test_processes_are_started_without_complaints(crew: Server) -> None:
    assert "warning:" not in crew.log.read_text()
