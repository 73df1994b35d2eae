"""PostgreSQL refuses sessions for a while: background jobs say so, and go on when it lets them in again."""

import time
from typing import Any
from uuid import uuid4

import grpc

from tests.backstage import database_url, metrics, sql
from tests.doors.a2a.calling import A2A, CONFORMANCE, text, tool
from tests.doors.a2a.grpc_calling import GrpcCaller, address_of, said
from tests.doors.a2a.grpc_calling import refused as refused_by
from tests.doors.mcp.calling import Mcp
from tests.harness import Server, wait_for
from tests.receiver import Receiver

# Every job that asks PostgreSQL for something every second or so.
JOBS = ("audit_sealing", "push_delivery", "subscription_delivery", "approval_sweep", "signature_sweep", "task_cleanup")
SETTINGS = CONFORMANCE | {"DRAGOMAN_THREADS__CLEANUP_S": "1"}


def dependency_of_jobs(server: Server) -> dict[str, Any]:
    """What `/health` says of the jobs, whatever else it says."""
    with server.client() as client:
        return client.get("/health").json()["dependencies"]["jobs"]


def succeeded_after(server: Server, at: float) -> bool:
    """Whether every job has had a good round since."""
    found = metrics(server)
    return all(found.get(f'dragoman_job_last_success_timestamp_seconds{{job="{job}"}}', 0) > at for job in JOBS)


def test_jobs_survive_a_database_that_refuses_sessions_and_health_names_them_meanwhile() -> None:
    with Server(SETTINGS) as server, Receiver() as receiver:
        caller = A2A(server)
        told = {"taskPushNotificationConfig": {"url": receiver.url}}
        caller.send(text("tck-complete-task", configuration=told))
        receiver.until("COMPLETED")

        sql(server, "ALTER DATABASE dragoman ALLOW_CONNECTIONS false", database="postgres")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'dragoman'"
        sql(server, ended, database="postgres")
        refused = refusals(server, caller)
        # Twice at least: a job that is tried once more has survived the first time.
        named = wait_for(lambda: all_failing(server), "health to name every job")
        sql(server, "ALTER DATABASE dragoman ALLOW_CONNECTIONS true", database="postgres")
        allowed_at = time.time()

        wait_for(lambda: succeeded_after(server, allowed_at), "every job to go on")
        wait_for(lambda: dependency_of_jobs(server)["status"] == "up", "health to be well again")
        caller.send(text("tck-complete-task", configuration=told))
        last = receiver.until("COMPLETED")[-1]
        wait_for(lambda: not unsealed(server), "everything to be sealed")
        crashed = [line for line in server.log_lines() if line["severity"] == "ERROR" and "job" in line]
        log = server.log.read_text()

    assert "UPSTREAM_UNAVAILABLE" in named["detail"]
    assert database_url(server) not in named["detail"]
    assert refused == dict.fromkeys(refused, (503, "2"))
    assert last.state == "COMPLETED"
    assert crashed == []
    assert "Traceback" not in log


def refusals(server: Server, caller: A2A) -> dict[str, tuple[int, str | None]]:
    """The status and `Retry-After` of every door while there is no database; gRPC's status as its HTTP equal."""
    message, seed = tool("memory_add", {"content": "tea"}), {"tool": "memory_add", "arguments": {"content": "tea"}}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
    answers = {
        "rest": caller.http.post("/api/memories", json={"content": "tea"}),
        "rest read": caller.http.get("/api/tasks"),
        "json-rpc": caller.post(rpc),
        "json-rpc stream": caller.post(rpc | {"method": "SendStreamingMessage"}),
        "http+json": caller.http.post("/a2a/rest/message:send", json=message, headers={"A2A-Version": "1.0"}),
        "seeds": caller.http.post(
            "/tasks/send", json={"message": {"role": "user", "parts": [{"type": "data", "data": seed}]}}
        ),
        # Of one whom the server does not know yet; to others MCP says it in the result of the tool.
        "mcp": Mcp(server, user="stranger").post("tools/call", {"name": "memory_add", "arguments": {"content": "tea"}}),
        "webhooks": caller.http.post(f"/api/webhooks/docusign/{uuid4()}", json={}),
    }
    found = {door: (answer.status_code, answer.headers.get("retry-after")) for door, answer in answers.items()}
    with GrpcCaller(address_of(server), authorization=f"Bearer {server.token()}") as grpc_caller:
        error: Any = refused_by(lambda: grpc_caller.call("SendMessage", said("hello")))
        status = 503 if error.code() is grpc.StatusCode.UNAVAILABLE else 0
        found["grpc"] = (status, dict(error.trailing_metadata()).get("retry-after"))
    return found


def all_failing(server: Server) -> dict[str, Any] | None:
    """What health says of the jobs once it names all of these, each having failed more than once."""
    found = dependency_of_jobs(server)
    counts = metrics(server)
    twice = all(counts.get(f'dragoman_job_failures_total{{job="{job}"}}', 0) > 1 for job in JOBS)
    return found if twice and all(job in found.get("detail", "") for job in JOBS) else None


def unsealed(server: Server) -> list[Any]:
    """Records that no chain has yet."""
    return sql(
        server,
        "SELECT 1 FROM audit_records r WHERE NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.record_id = r.id)",
    )
