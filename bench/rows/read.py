from bench.echo import Echo
from bench.load import request
from bench.subject import Effort, Subject, dragoman, take_turns
from bench.table import Line, Outcome

LEAST_RATIO = 0.25
LEAST_PER_S = 2_000


def run(effort: Effort) -> Outcome:
    """An authenticated, authorised, limited read, with and without a row from PostgreSQL, beside the bare echo."""
    with dragoman() as server, Echo() as echo:
        bearer = {"authorization": f"Bearer {server.token()}"}
        bare = Subject("echo", echo, request("GET", "/echo", bearer))
        ours = [
            Subject("GET /api/tenant/demo", server, request("GET", "/api/tenant/demo", bearer)),
            Subject("GET /api/me (no row)", server, request("GET", "/api/me", bearer)),
        ]
        take_turns([bare, *ours], effort)
    outcome = Outcome(
        "REST read, closed loop",
        [Line("Starlette echo", f"{bare.per_s:,.0f}/s", None, bare.cpu_us, bare.typical_cpu_us)],
    )
    for subject in ours:
        ratio = subject.per_s / bare.per_s
        outcome.lines += [
            Line(
                subject.name,
                f"{subject.per_s:,.0f}/s",
                ratio,
                subject.cpu_us,
                subject.typical_cpu_us,
                subject.beside_us,
                f"ratio >= {LEAST_RATIO}",
                ratio >= LEAST_RATIO,
            ),
            Line(
                "  requests",
                f"{subject.per_s:,.0f}/s",
                target=f">= {LEAST_PER_S:,}/s",
                met=subject.per_s >= LEAST_PER_S,
            ),
            Line("  by CPU", f"{bare.cpu_us / subject.cpu_us:.2f} of the echo", bare.cpu_us / subject.cpu_us),
        ]
    outcome.figures = {subject.name: subject.figures() for subject in (bare, *ours)}
    outcome.server_errors = sum(subject.server_errors for subject in (bare, *ours))
    return outcome
