"""Verifying an audit trail: links, MACs and signatures, and every row of the database against its record."""

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import httpx
import orjson
from tests.backstage import sql
from tests.harness import Server, wait_for
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import envelope

from bench.load import NUMBER, request
from bench.process import cpu_s, tree_cpu_s
from bench.subject import Effort, Subject
from bench.table import Line, Outcome

PER_S = 20_000
# Each delegated task leaves three records and three rows that are held against them.
_SECONDS_OF_TASKS = 8
_CONNECTIONS = 64
_UNSEALED = """
SELECT 1 FROM audit_records r WHERE NOT EXISTS (SELECT FROM audit_links l WHERE l.record_id = r.id) LIMIT 1"""


def run(effort: Effort) -> Outcome:
    """Perform tasks as fast as they come, then verify the trail that they left."""
    outcome = Outcome("Audit: the trail verified and the rows rebuilt from it, in one process")
    with (
        tempfile.TemporaryDirectory() as outside,
        Server({**with_workers(Path(outside)), "DRAGOMAN_REQUEST_TIMEOUT_S": "600"}) as server,
        server.client(server.token()) as client,
    ):
        client.timeout = httpx.Timeout(600)
        _fill(server, effort)
        checks = [_verify(server, client) for _ in range(effort.rounds)]
    records, rows = checks[0]["records"], checks[0]["rows"]
    per_s = records / median(check["took_s"] for check in checks)
    ours_us, beside_us = (1e6 * median(check[name] for check in checks) / records for name in ("cpu_s", "beside_s"))
    outcome.lines = [
        Line(f"{records:,} records, {rows:,} rows", f"{per_s:,.0f}/s", None, ours_us, None, beside_us,
             f">= {PER_S:,}/s", per_s >= PER_S)
    ]  # fmt: skip
    outcome.figures = {"checks": checks, "per_s": per_s}
    return outcome


def _fill(server: Server, effort: Effort) -> None:
    body = orjson.dumps(envelope("count.nothing", idempotency_key=f"key-{NUMBER}")).decode()
    bearer = {"authorization": f"Bearer {server.token()}"}
    submitting = Subject("submit", server, request("POST", "/api/tasks", bearer, body))
    submitting.take_turn(effort.seconds * _SECONDS_OF_TASKS, connections=_CONNECTIONS)
    wait_for(lambda: not sql(server, "SELECT 1 FROM task_queue LIMIT 1"), "the end of every task")
    wait_for(lambda: not sql(server, _UNSEALED), "the seal")


def _verify(server: Server, client: httpx.Client) -> dict[str, Any]:
    before, beside, began = cpu_s(server.pid), tree_cpu_s(server.pid), perf_counter()
    answer = client.post("/api/audit/verify", json={}).raise_for_status().json()["data"]
    took_s = perf_counter() - began
    if not answer["ok"]:
        raise RuntimeError(f"the trail is broken: {answer['problems'][:3]} {answer['disagreements'][:3]}")
    return {
        "records": answer["records"],
        "rows": answer["rows"],
        "took_s": took_s,
        "cpu_s": cpu_s(server.pid) - before,
        "beside_s": tree_cpu_s(server.pid) - beside,
    }
