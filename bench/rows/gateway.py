"""The agent gateway over kept connections of mutual TLS: client certificate and key, beside a plain bearer token."""

import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, Final

import httpx
from tests.harness import Server

from bench.load import request
from bench.subject import Effort, Subject
from bench.table import Line, Outcome
from dragoman.infra.private_authority import Issued, PrivateAuthority

MOST_P99_MS: Final = 5
PER_S: Final = 200
_CONNECTIONS: Final = 8
_ASKED: Final = {"tool": "identity_show", "arguments": {}}


def run(effort: Effort) -> Outcome:
    """Ask who we are at a fixed arrival rate, in turns: over the gateway, and over REST with a token."""
    outcome = Outcome(f"Agent gateway at {PER_S} requests/s, open loop, kept TLS connections: identity_show")
    with tempfile.TemporaryDirectory() as outside:
        authority = PrivateAuthority(Path(outside) / "ca")
        authority.create("Agents")
        serving = authority.issue("server", days=1, server_names=("localhost", "127.0.0.1"))
        shown = authority.issue("bench", days=1)
        with Server(
            {
                "DRAGOMAN_TLS_CERT": str(serving.certificate),
                "DRAGOMAN_TLS_KEY": str(serving.key),
                "DRAGOMAN_TLS_CLIENT_CA": str(authority.certificate),
                "DRAGOMAN_GATEWAY__CRL": str(authority.revocations),
            }
        ) as server:
            ca = str(authority.certificate)
            headers = {"x-api-key": _register(server, ca, shown)}
            body = json.dumps(_ASKED)
            bearer = {"authorization": f"Bearer {server.token()}"}
            subjects = (
                Subject("certificate and key", server, request("POST", "/a2a/v1/query", headers, body),
                        tls=(ca, str(shown.certificate), str(shown.key))),
                Subject("bearer token", server, request("GET", "/api/me", bearer), tls=(ca,)),
            )  # fmt: skip
            for _ in range(effort.rounds):
                for subject in subjects:
                    subject.take_turn(effort.open_s, rate=PER_S, connections=_CONNECTIONS)
    ours, plain = subjects
    for subject in subjects:
        _tell(outcome, subject, ours.cpu_us / plain.cpu_us if subject is ours else None)
    outcome.note = "The target is for a certificate and a key, beyond the handshake; a ratio is its CPU by the token's."
    return outcome


def _register(server: Server, ca: str, shown: Issued) -> str:
    """Return the key of an agent that may ask as often as can be."""
    given: dict[str, Any] = {"name": "bench", "certificate": shown.certificate.read_text(), "per_min": 100_000}
    with server.client(server.token(), verify=ssl.create_default_context(cafile=ca)) as admin:
        made: httpx.Response = admin.post("/api/a2a-agents", json=given)
    made.raise_for_status()
    return made.json()["data"]["secret"]


def _tell(outcome: Outcome, subject: Subject, ratio: float | None) -> None:
    spreads = [turn.load.latency for turn in subject.turns]
    p50_ms, p99_ms = (min(getattr(spread, name) for spread in spreads) for name in ("p50_ms", "p99_ms"))
    outcome.lines += [
        Line(f"{subject.name}, p50", f"{p50_ms:.2f} ms", ratio, subject.cpu_us, subject.typical_cpu_us,
             subject.beside_us),
        Line(f"{subject.name}, p99", f"{p99_ms:.2f} ms", target=f"< {MOST_P99_MS} ms" if ratio else "",
             met=p99_ms < MOST_P99_MS if ratio else None),
    ]  # fmt: skip
    outcome.figures[subject.name] = subject.figures()
    outcome.server_errors += subject.server_errors
