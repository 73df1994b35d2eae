from dataclasses import asdict

from bench.load import request
from bench.subject import Effort, Subject, dragoman
from bench.table import Line, Outcome

PER_S = 1_000
WORKERS = 2
CONNECTIONS = 64
# The last answers come a little after the last request.
_TOLERANCE = 0.99


def run(effort: Effort) -> Outcome:
    """A rate that two server processes have to hold."""
    with dragoman("--workers", str(WORKERS)) as server:
        bearer = {"authorization": f"Bearer {server.token()}"}
        subject = Subject("read", server, request("GET", "/api/tenant/demo", bearer))
        turn = subject.take_turn(effort.open_s, rate=PER_S, connections=CONNECTIONS)
    load, spread = turn.load, turn.load.latency
    held = load.per_s >= PER_S * _TOLERANCE
    return Outcome(
        f"Sustained: GET /api/tenant/demo at {PER_S:,} requests/s over {WORKERS} processes, {effort.open_s:g} s",
        [
            Line(
                "answered",
                f"{load.per_s:,.0f}/s",
                load.per_s / PER_S,
                turn.cpu_us,
                None,
                turn.beside_us,
                f"{PER_S}/s",
                held,
            ),
            Line("p95", f"{spread.p95_ms:.2f} ms", target="< 20 ms", met=spread.p95_ms < 20),
            Line("p99", f"{spread.p99_ms:.2f} ms"),
            Line("server errors", str(load.server_errors), target="0", met=load.server_errors == 0),
        ],
        asdict(load),
        load.server_errors,
        f"The generator itself was up to {load.lag_ms:.2f} ms late (p99).",
    )
