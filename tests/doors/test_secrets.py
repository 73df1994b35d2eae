"""What an operation marks as secret is nowhere to be read afterwards, whichever door it came through."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import add_tenant, locked, sql
from tests.doors.a2a.calling import A2A, error_of, state, tool
from tests.doors.mcp.calling import Mcp
from tests.doors.rest.calling import data
from tests.harness import Server, wait_for
from tests.tenants import beside

AT_ONCE = {"returnImmediately": True}
COLUMNS = """
SELECT c.relname AS "table" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"""


@pytest.fixture
def caller(server: Server) -> Iterator[A2A]:
    """An administrator of a tenant of the test's own."""
    yield A2A(server, tenant=add_tenant(server))
    while A2A.opened:
        A2A.opened.pop().close()
    while Mcp.opened:
        Mcp.opened.pop().close()


@pytest.fixture
def secret() -> str:
    return f"s3cr3t-{uuid4().hex}"


def worker(secret: str, **fields: Any) -> dict[str, Any]:
    name = f"w{uuid4().hex[:10]}"
    return {"name": name, "kind": "a2a", "url": "https://agent.example.com", "credential": secret,
            "actions": ["form.fill"], **fields}  # fmt: skip


def places_of(server: Server, secret: str) -> list[str]:
    """Every table, and every file of the server's, where the secret can be read."""
    wanted = f"%{secret}%", f"%{secret.encode().hex()}%"
    tables = [
        row["table"]
        for row in sql(server, COLUMNS)
        if sql(server, f'SELECT 1 FROM "{row["table"]}" t WHERE t::text LIKE $1 OR t::text LIKE $2 LIMIT 1', *wanted)
    ]
    files = [server.log, server.data_dir / "security.jsonl"]
    return tables + [str(file) for file in files if secret in file.read_text()]


def test_the_search_finds_what_is_there_to_be_read(server: Server, caller: A2A, secret: str) -> None:
    caller.send(tool("memory_add", {"content": secret}))

    assert {"memories", "tasks"} <= set(places_of(server, secret))


def test_a_credential_that_comes_in_a_message_is_not_kept_with_the_task(
    server: Server, caller: A2A, secret: str
) -> None:
    waited = caller.send(tool("worker_register", worker(secret)))
    keyed = tool("worker_register", worker(secret), metadata={"idempotencyKey": uuid4().hex})
    first, again = caller.send(keyed), caller.send(keyed)
    begun = caller.send(tool("worker_register", worker(secret), configuration=AT_ONCE))
    later = wait_for(lambda: state(task := caller.get(begun["id"])) == "COMPLETED" and task, "the task")
    wrong = [worker(secret, url=5), worker(secret, password=secret), {"worker": secret}, [secret], secret]
    refused = [caller.send(tool("worker_register", arguments)) for arguments in wrong]
    streamed = caller.events("SendStreamingMessage", tool("worker_register", worker(secret)))

    assert {state(one) for one in (waited, first, again, later)} == {"COMPLETED"}
    assert first["id"] == again["id"]
    assert later["artifacts"][0]["parts"][0]["data"]["has_credential"] is True
    assert {error_of(one)["code"] for one in refused} == {"INVALID_PARAMS"}
    assert state(streamed[-1][1]["statusUpdate"]) == "COMPLETED"
    said = later["history"][0]["parts"][0]["data"]
    assert (said["tool"], said["arguments"]["credential"]) == ("worker_register", "[redacted]")
    assert secret not in str((waited, first, again, later, refused, streamed))
    assert places_of(server, secret) == []


def test_a_credential_that_comes_by_mcp_or_rest_is_not_kept(server: Server, caller: A2A, secret: str) -> None:
    [row] = sql(server, "SELECT slug FROM tenants ORDER BY id DESC LIMIT 1")
    mcp = Mcp(server, tenant=row["slug"])
    made = mcp.call("worker_register", worker(secret) | {"idempotency_key": uuid4().hex})
    wrong = mcp.call("worker_register", worker(secret, password=secret))
    headers = {"Idempotency-Key": uuid4().hex}
    data(caller.http.post("/api/workers", json=worker(secret), headers=headers), 201)
    refused = caller.http.post("/api/workers", json=worker(secret, url=5))
    provider = {"provider": "documenso", "base_url": "https://sign.example.com/api/v1",
                "credential": {"access_token": secret}, "webhook_keys": [secret, secret]}  # fmt: skip
    configured = mcp.call("signature_configure", provider)
    by_message = caller.send(tool("signature_configure", provider))

    assert (made["isError"], wrong["isError"], refused.status_code, configured["isError"]) == (False, True, 400, False)
    assert state(by_message) == "COMPLETED"
    assert secret not in str(made) + str(wrong) + refused.text + str(by_message)
    assert places_of(server, secret) == []


def test_a_secret_that_is_shown_once_is_shown_to_who_waits_and_to_nobody_later(server: Server, caller: A2A) -> None:
    waited = caller.send(tool("key_create", {"name": "nightly"}))
    events = caller.events("SendStreamingMessage", tool("key_create", {"name": "weekly"}))

    shown = waited["artifacts"][0]["parts"][0]["data"]
    streamed = next(event["artifactUpdate"]["artifact"] for _, event in events if "artifactUpdate" in event)
    secrets = [shown["secret"], streamed["parts"][0]["data"]["secret"]]
    assert all(secret.startswith("dgm_") for secret in secrets)
    kept = caller.get(waited["id"])["artifacts"][0]["parts"][0]["data"]
    assert kept == shown | {"secret": None}
    assert [places_of(server, secret) for secret in secrets] == [[], []]


def test_work_whose_secrets_died_with_a_process_is_not_done_with_anything_else(
    server: Server, caller: A2A, secret: str
) -> None:
    """The other server is stopped before it could write the worker; this one takes the task over."""
    [row] = sql(server, "SELECT slug FROM tenants ORDER BY id DESC LIMIT 1")
    other = Server(beside(server)).start()
    there = A2A(other, keys_of=server, tenant=row["slug"])
    with locked(server, "workers"):
        begun = there.send(tool("worker_register", worker(secret), configuration=AT_ONCE))
        other.stop(signal.SIGKILL)
    sql(server, "UPDATE task_queue SET lease_until = now() - interval '1 s' WHERE task_id = $1", begun["id"])

    ended = wait_for(lambda: state(task := caller.get(begun["id"])) == "FAILED" and task, "the end of the task")

    assert error_of(ended)["code"] == "SECRETS_GONE"
    assert data(caller.http.get("/api/workers", params={"kind": "a2a"})) == []
    assert places_of(server, secret) == []


def test_work_that_was_done_before_its_process_died_is_found_done_without_its_secrets(
    server: Server, caller: A2A, secret: str
) -> None:
    """The worker is written, and that the task has ended is not: the two tables are let go one after the other."""
    [row] = sql(server, "SELECT slug FROM tenants ORDER BY id DESC LIMIT 1")
    other = Server(beside(server)).start()
    there, given, undone = A2A(other, keys_of=server, tenant=row["slug"]), worker(secret), ExitStack()
    undone.enter_context(locked(server, "workers"))
    begun = there.send(tool("worker_register", given, configuration=AT_ONCE))
    with locked(server, "task_events"):
        undone.close()
        wait_for(lambda: sql(server, "SELECT 1 FROM workers WHERE name LIKE $1", f"%{given['name']}"), "the worker")
        other.stop(signal.SIGKILL)
    sql(server, "UPDATE task_queue SET lease_until = now() - interval '1 s' WHERE task_id = $1", begun["id"])

    ended = wait_for(lambda: state(task := caller.get(begun["id"])) == "COMPLETED" and task, "the end of the task")

    made = ended["artifacts"][0]["parts"][0]["data"]
    assert (made["name"].endswith(given["name"]), made["has_credential"]) == (True, True)
    [row] = sql(server, "SELECT attempt FROM tasks WHERE id = $1", begun["id"])
    assert row["attempt"] == 2
    assert places_of(server, secret) == []
