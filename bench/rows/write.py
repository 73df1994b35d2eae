import json

from bench.echo import Echo
from bench.load import NUMBER, request
from bench.subject import Effort, Subject, dragoman, take_turns
from bench.table import Line, Outcome


def run(effort: Effort) -> Outcome:
    """An invitation with an idempotency key: key, row and audit record in one commit; beside an echo of its body."""
    body = json.dumps({"email": f"u{NUMBER}@example.com", "name": "Ada Lovelace", "role": "analyst"})
    with dragoman() as server, Echo() as echo:
        headers = {"authorization": f"Bearer {server.token()}", "idempotency-key": f"bench-{NUMBER}"}
        bare = Subject("echo", echo, request("POST", "/echo", headers, body))
        ours = Subject("POST /api/users", server, request("POST", "/api/users", headers, body))
        take_turns([bare, ours], effort)
    return Outcome(
        "REST write, closed loop",
        [
            Line("Starlette echo of the body", f"{bare.per_s:,.0f}/s", None, bare.cpu_us, bare.typical_cpu_us),
            Line(
                ours.name,
                f"{ours.per_s:,.0f}/s",
                ours.per_s / bare.per_s,
                ours.cpu_us,
                ours.typical_cpu_us,
                ours.beside_us,
            ),
            Line("  by CPU", f"{bare.cpu_us / ours.cpu_us:.2f} of the echo", bare.cpu_us / ours.cpu_us),
        ],
        {subject.name: subject.figures() for subject in (bare, ours)},
        bare.server_errors + ours.server_errors,
        "CPU includes sealing the audit records, which goes on while the load does.",
    )
