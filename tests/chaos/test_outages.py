"""What a server does when PostgreSQL or Valkey hangs or dies under it, and that it comes back by itself."""

import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.backstage import add_tenant, hung, metrics, pid_of, sql
from tests.harness import InProcess, Server, wait_for
from tests.tenants import beside

USER = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """With a limit that can be reached, and the patience with Valkey that the one request has that finds it hung."""
    limits = {"DRAGOMAN_LIMITS__USER_PER_MIN": str(USER), "DRAGOMAN_LIMITS__VALKEY_TIMEOUT_S": "2"}
    with Server(limits) as running:
        yield running


def caller(server: Server, tenant: str = "demo") -> httpx.Client:
    """Somebody whom no limit has counted yet."""
    return server.client(server.token(tenant=tenant, role="super_admin", user=f"user-{time.monotonic_ns()}"))


def health(server: Server) -> tuple[int, str, str, str]:
    with server.client() as client:
        answer = client.get("/health")
    report = answer.json()
    found = report.get("dependencies", {})
    return answer.status_code, report["status"], found["postgresql"]["status"], found["valkey"]["status"]


def valkey_is_away(server: Server) -> bool:
    return health(server) == (200, "degraded", "up", "down")


def all_is_well(server: Server) -> bool:
    return health(server) == (200, "ok", "up", "up")


def messages(server: Server) -> list[str]:
    return [line["message"] for line in server.log_lines()]


def ask_until_refused(client: httpx.Client) -> tuple[list[int], int]:
    """Ask until the limit refuses; gives the statuses, and in how many minutes of the clock they came."""
    began, found = time.time() // 60, list[int]()

    def refused() -> bool:
        found.extend(client.get("/api/me").status_code for _ in range(2 * USER + 2))
        return 429 in found

    wait_for(refused, "a refusal")
    return found, int(time.time() // 60 - began) + 1


@pytest.mark.req("GW-209", "GW-208")
@pytest.mark.parametrize("signal_number", [signal.SIGSTOP, signal.SIGKILL], ids=["hung", "killed"])
def test_without_valkey_requests_go_on_and_limits_hold_in_memory(server: Server, signal_number: signal.Signals) -> None:
    tenant = add_tenant(server)
    before = messages(server).count("limits.degraded")
    # Stopping its supervisor too would be another test: a killed Valkey is back within a second.
    victim = pid_of(server, "valkey")
    with caller(server, tenant) as client:
        assert client.get("/api/me").status_code == 200

        os.kill(victim, signal_number)
        try:
            found, minutes = ask_until_refused(client)
            restored = messages(server).count("limits.restored") - before
            if signal_number is signal.SIGSTOP:
                wait_for(lambda: valkey_is_away(server), "health to show it")
                assert metrics(server)["dragoman_limits_degraded"] == 1
        finally:
            if signal_number is signal.SIGSTOP:
                os.kill(victim, signal.SIGCONT)

    assert set(found) == {200, 429}
    # What was left of the quota in Valkey, and one in memory for each minute; a Valkey that is back counts anew.
    assert USER - 1 <= found.count(200) <= USER - 1 + (minutes + restored) * USER
    # Once, whatever the number of requests: one waited for Valkey, and the others did not.
    assert messages(server).count("limits.degraded") == before + 1
    wait_for(lambda: messages(server).count("limits.restored") == before + 1, "Valkey to be used again")
    assert metrics(server)["dragoman_limits_degraded"] == 0
    wait_for(lambda: all_is_well(server), "health to show it")


@pytest.mark.req("GW-208", "GW-210")
def test_a_hung_database_is_an_answer_in_bounded_time_and_no_harm_afterwards(server: Server) -> None:
    """In the time that a request has; the server beside the one that must answer at once has three seconds."""
    hasty = beside(server) | {"DRAGOMAN_REQUEST_TIMEOUT_S": "3"}
    with InProcess(hasty) as other, other.client(server.token(role="super_admin")) as client:
        wait_for(lambda: client.get("/api/users").status_code == 200, "the database")
        with hung(pid_of(server, "postgres")):
            answer = client.get("/api/users")
            assert health(server)[:3] == (503, "down", "down")
            with server.client() as probe:
                assert probe.get("/ready").status_code == 200  # it is alive, and says so

        assert answer.status_code in (503, 504)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["retryable"] is True
        wait_for(lambda: all_is_well(server), "the database")
        wait_for(lambda: client.get("/api/users").status_code == 200, "the end of every harm")


def test_a_killed_database_is_restarted_and_nothing_acknowledged_is_lost(server: Server) -> None:
    slugs: list[str] = []
    refused: list[httpx.Response] = []

    def write() -> bool:
        slug = f"kept-{time.monotonic_ns()}"
        with caller(server) as client:
            answer = client.post("/api/tenant", json={"name": "Kept", "slug": slug})
        if answer.status_code == 201:
            slugs.append(slug)
        else:
            refused.append(answer)
        return answer.status_code == 201

    assert write()
    os.kill(pid_of(server, "postgres"), signal.SIGKILL)
    write()
    wait_for(write, "a write after the restart")

    assert [answer.status_code for answer in refused] == [503] * len(refused)
    assert refused
    for answer in refused:
        assert answer.json()["code"] == "UPSTREAM_UNAVAILABLE"
        assert int(answer.headers["retry-after"]) > 0
    found = sql(server, "SELECT slug FROM tenants WHERE slug LIKE 'kept-%'")
    assert {row["slug"] for row in found} >= set(slugs)
    wait_for(lambda: all_is_well(server), "health")
    with caller(server) as client:
        assert client.post("/api/audit/verify", json={}).json()["data"]["ok"] is True
