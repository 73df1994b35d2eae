from dataclasses import asdict

from bench.load import request
from bench.subject import Effort, Subject, dragoman
from bench.table import Line, Outcome

PER_S = 500
MOST_P95_MS = 20
CONNECTIONS = 64


def run(effort: Effort) -> Outcome:
    """The read at a fixed arrival rate, each latency from the moment at which it was meant to be sent."""
    with dragoman() as server:
        bearer = {"authorization": f"Bearer {server.token()}"}
        subject = Subject("read", server, request("GET", "/api/tenant/demo", bearer))
        turn = subject.take_turn(effort.open_s, rate=PER_S, connections=CONNECTIONS)
    load, spread = turn.load, turn.load.latency
    return Outcome(
        f"Latency of GET /api/tenant/demo at {PER_S} requests/s, open loop",
        [
            Line("p50", f"{spread.p50_ms:.2f} ms", cpu_us=turn.cpu_us, beside_us=turn.beside_us),
            Line("p95", f"{spread.p95_ms:.2f} ms", target=f"< {MOST_P95_MS} ms", met=spread.p95_ms < MOST_P95_MS),
            Line("p99", f"{spread.p99_ms:.2f} ms"),
            Line("server errors", str(load.server_errors), target="0", met=load.server_errors == 0),
        ],
        asdict(load),
        load.server_errors,
        f"{load.per_s:.0f}/s were answered; the generator itself was up to {load.lag_ms:.2f} ms late (p99).",
    )
