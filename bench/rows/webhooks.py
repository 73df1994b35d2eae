"""Webhooks of one source at a fixed rate, each signed by itself; then a kill, and all of them are counted."""

import json
import signal
import time
from dataclasses import asdict

from tests.backstage import sql
from tests.harness import Server, wait_for

from bench.load import NUMBER, SIGNATURE, request
from bench.subject import Effort, Subject
from bench.table import Line, Outcome

PER_S, P95_MS = 300, 50.0
CONNECTIONS = 32
_TOLERANCE = 0.99
_KEY = "a-key-of-the-sender-0123456789"
_LIMIT = {"DRAGOMAN_WEBHOOKS__SOURCE_PER_MIN": "1000000"}


def run(effort: Effort) -> Outcome:
    """Send, kill, count."""
    outcome = Outcome(f"Webhooks of one source at {PER_S}/s, signed, durable before the 202, in one process")
    with Server(_LIMIT) as server:
        given = {"name": "bench", "provider": "hmac", "secret": _KEY}
        with server.admin() as admin:
            source = admin.post("/api/webhook-sources", json=given).raise_for_status().json()["data"]
        turn = _subject(server, source["path"]).take_turn(effort.open_s, rate=PER_S, connections=CONNECTIONS)
        server.stop(signal.SIGKILL)
        began = time.perf_counter()
        server.start()
        wait_for(lambda: not _count(server, "state = 'received'"), "the end of every event")
        took_s = time.perf_counter() - began
        kept = _count(server, "true")
    load, spread = turn.load, turn.load.latency
    lost = load.answered - kept
    outcome.lines = [
        Line("acknowledged", f"{load.per_s:,.0f}/s", None, turn.cpu_us, None, turn.beside_us, f"{PER_S}/s",
             load.per_s >= PER_S * _TOLERANCE),
        Line("p50 and p95", f"{spread.p50_ms:.1f} and {spread.p95_ms:.1f} ms", target=f"p95 < {P95_MS:g} ms",
             met=spread.p95_ms < P95_MS),
        Line(f"of {load.answered:,} lost through kill -9", str(lost), target="0", met=lost <= 0),
    ]  # fmt: skip
    outcome.figures = {"arrivals": asdict(load), "kept": kept, "all_processed_after_s": took_s}
    outcome.server_errors = load.server_errors
    outcome.note = f"The generator itself was up to {load.lag_ms:.2f} ms late (p99)."
    return outcome


def _subject(server: Server, path: str) -> Subject:
    body = json.dumps({"type": "bench.sent", "data": {"objects": [{"url": "s3://billing/focus.csv.gz"}]}})
    now = int(time.time())
    headers = {
        "webhook-id": NUMBER,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{SIGNATURE}",
    }
    return Subject("webhook", server, request("POST", path, headers, body), _KEY, f"{NUMBER}.{now}.{body}")


def _count(server: Server, condition: str) -> int:
    return sql(server, f"SELECT count(*) AS n FROM webhook_events WHERE {condition}")[0]["n"]
