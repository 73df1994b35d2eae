"""Streams of every door: their callers are checked while they are open, and there are only so many."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2 as pb

from dragoman.infra.auth import tokens
from tests.doors.a2a.calling import A2A, CONFORMANCE, busy, sse, text
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, reason_of, refused
from tests.doors.mcp.calling import Mcp, Session
from tests.harness import InProcess, Server, wait_for
from tests.patience import PATIENCE_S
from tests.tenants import done, invite, new_tenant, query

CAPS = {"STREAMS_PER_CALLER": "2", "STREAMS_PER_TENANT": "3", "STREAMS_PER_PROCESS": "4"}


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while A2A.opened:
        A2A.opened.pop().close()


@pytest.fixture(scope="module")
def watchful() -> Iterator[Server]:
    """A server that checks the callers of its streams all the time."""
    with InProcess(CONFORMANCE | {"DRAGOMAN_LIMITS__STREAM_CHECK_S": "0.1"}) as running:
        yield running


@pytest.fixture(scope="module")
def capped() -> Iterator[Server]:
    with InProcess(CONFORMANCE | {f"DRAGOMAN_LIMITS__{name}": most for name, most in CAPS.items()}) as running:
        yield running


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is taken for a minute after its end, where it is five seconds: for the clocks of issuers."""
    monkeypatch.setattr(tokens, "_LEEWAY_S", PATIENCE_S)


@contextmanager
def by_rpc(server: Server, caller: A2A, task: str, headers: dict[str, str]) -> Generator[Iterator[Any]]:
    body = {"jsonrpc": "2.0", "id": "1", "method": "SubscribeToTask", "params": {"id": task}}
    with caller.http.stream("POST", "/a2a", json=body, headers=headers) as response:
        yield (data for _, data in sse(response))


@contextmanager
def by_rpc_03(server: Server, caller: A2A, task: str, headers: dict[str, str]) -> Generator[Iterator[Any]]:
    body = {"jsonrpc": "2.0", "id": "1", "method": "tasks/resubscribe", "params": {"id": task}}
    with caller.http.stream("POST", "/a2a", json=body) as response:
        yield (data for _, data in sse(response))


@contextmanager
def by_rest(server: Server, caller: A2A, task: str, headers: dict[str, str]) -> Generator[Iterator[Any]]:
    with caller.http.stream("GET", f"/a2a/rest/tasks/{task}:subscribe", headers=headers) as response:
        yield (data for _, data in sse(response))


@contextmanager
def by_seed_path(server: Server, caller: A2A, task: str, headers: dict[str, str]) -> Generator[Iterator[Any]]:
    body = {"jsonrpc": "2.0", "id": "1", "method": "tasks/resubscribe", "params": {"id": task}}
    with caller.http.stream("POST", "/tasks/sendSubscribe", json=body) as response:
        yield (data for _, data in sse(response))


SSE = {"json-rpc": by_rpc, "0.3": by_rpc_03, "http+json": by_rest, "0.1": by_seed_path}


@pytest.mark.parametrize("binding", SSE)
def test_the_stream_of_a_disabled_user_ends_with_an_error(watchful: Server, tmp_path: Path, binding: str) -> None:
    slug = new_tenant(watchful)
    with watchful.client(watchful.token(tenant=slug)) as admin:
        user = invite(admin, "eve", "agent")
        eve = A2A(watchful, tenant=slug, user="eve", role="agent")
        task = eve.send(busy(tmp_path / "go", configuration={"returnImmediately": True}))

        with SSE[binding](watchful, eve, task["id"], {"A2A-Version": "1.0"}) as events:
            next(events)
            done(admin.post(f"/api/users/{user['id']}/disable"))
            last = list(events)[-1]
    (tmp_path / "go").touch()

    assert "credentials are required" in str(last["error"])


def test_the_grpc_stream_of_a_revoked_key_ends_unauthenticated(watchful: Server) -> None:
    slug = new_tenant(watchful)
    with watchful.client(watchful.token(tenant=slug)) as admin:
        key = done(admin.post("/api/keys", json={"name": "eve", "role": "agent"}))
        with GrpcCaller(address_of(watchful), authorization=f"Bearer {key['secret']}") as eve:
            request = pb.SendMessageRequest(
                message=pb.Message(role=pb.ROLE_USER, message_id="m", parts=[pb.Part(text="tck-input-required")])
            )
            task = eve.call("SendMessage", request).task
            stream = eve.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id))
            next(stream)

            done(admin.delete(f"/api/keys/{key['id']}"))
            error = refused(lambda: list(stream))

    assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


@pytest.mark.usefixtures("lenient")
@pytest.mark.parametrize("binding", SSE)
def test_a_stream_does_not_outlive_the_token_that_opened_it(watchful: Server, tmp_path: Path, binding: str) -> None:
    """One hour of a token was a stream for ever."""
    slug = new_tenant(watchful)
    eve = A2A(watchful, tenant=slug, user="eve")
    task = eve.send(busy(tmp_path / "go", configuration={"returnImmediately": True}))
    late = A2A(watchful, tenant=slug, user="eve", ttl_s=-1)

    with SSE[binding](watchful, late, task["id"], {"A2A-Version": "1.0"}) as events:
        last = list(events)[-1]
    (tmp_path / "go").touch()

    assert "credentials are required" in str(last["error"])
    assert "expired" in {one["reason"] for one in watchful.security_events() if one["event"] == "credentials_rejected"}


def test_the_streams_of_a_key_that_was_replaced_end_with_its_grace(watchful: Server) -> None:
    slug = new_tenant(watchful)
    with watchful.client(watchful.token(tenant=slug)) as admin:
        key = done(admin.post("/api/keys", json={"name": "eve", "role": "agent"}))
        eve = A2A(watchful, tenant=slug)
        eve.http.headers["authorization"] = f"Bearer {key['secret']}"
        task = eve.send(text("tck-input-required"))
        with by_rest(watchful, eve, task["id"], {"A2A-Version": "1.0"}) as events:
            next(events)
            done(admin.post(f"/api/keys/{key['id']}/rotate", json={"grace_s": 600}))
            query(watchful, "UPDATE api_keys SET expires_at = now() WHERE id = $1::text::uuid", key["id"])

            last = list(events)[-1]

    assert "credentials are required" in str(last["error"])


@pytest.mark.usefixtures("lenient")
def test_the_stream_of_an_mcp_session_ends_with_its_token(watchful: Server) -> None:
    session = Session(Mcp(watchful, tenant=new_tenant(watchful), ttl_s=-1))

    with session.listen().begun() as line:
        line.rest()


def test_the_stream_of_an_mcp_session_ends_when_when_its_tenant_is_suspended(watchful: Server) -> None:
    slug = new_tenant(watchful)
    session = Session(Mcp(watchful, tenant=slug))

    with session.listen().begun() as line, watchful.admin() as platform:
        done(platform.post(f"/api/tenant/{slug}/suspend"))
        line.rest()

    with watchful.client(watchful.token(tenant=slug)) as after:
        assert after.get("/api/me").status_code == 401


def test_streams_are_capped_for_a_caller_a_tenant_and_a_process_over_all_doors(capped: Server) -> None:
    slug, other = new_tenant(capped), new_tenant(capped)
    callers = {name: A2A(capped, tenant=slug, user=name) for name in ("ann", "bob", "cid")}
    tasks = {name: caller.send(text("tck-input-required"))["id"] for name, caller in callers.items()}
    guests = [A2A(capped, tenant=other, user=name) for name in ("gus", "hal")]
    guests_tasks = [guest.send(text("tck-input-required"))["id"] for guest in guests]

    def refusal(caller: A2A, task: str) -> Any:
        refused = caller.post({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        return refused.json()["details"]["limit"]

    followed: list[Iterator[Any]] = []
    with ExitStack() as streams:

        def follow(caller: A2A, task: str) -> None:
            # A generator that is dropped would close its stream.
            followed.append(streams.enter_context(by_rest(capped, caller, task, {"A2A-Version": "1.0"})))
            assert "task" in next(followed[-1])

        first = Session(Mcp(capped, tenant=slug, user="ann")).listen()
        streams.enter_context(first.begun())
        follow(callers["ann"], tasks["ann"])
        by_caller = refusal(callers["ann"], tasks["ann"])
        follow(callers["bob"], tasks["bob"])
        by_tenant = refusal(callers["cid"], tasks["cid"])
        follow(guests[0], guests_tasks[0])
        by_process = refusal(guests[1], guests_tasks[1])

    assert (by_caller, by_tenant, by_process) == ("streams-caller", "streams-tenant", "streams-process")
    limits = [event["limit"] for event in capped.security_events() if event["event"] == "rate_limited"]
    assert limits == [by_caller, by_tenant, by_process]
    wait_for(lambda: _opens(guests[1], guests_tasks[1]), "a place that another stream has left")


def _opens(caller: A2A, task: str) -> bool:
    with caller.http.stream("GET", f"/a2a/rest/tasks/{task}:subscribe", headers={"A2A-Version": "1.0"}) as response:
        return response.is_success
