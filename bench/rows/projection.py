"""Our table of operations beside FastAPI routes: the same models, the same answer, nothing behind either."""

import importlib
import importlib.util
import sys
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from bench.echo import Echo, listen_and_serve
from bench.load import request
from bench.subject import Effort, Subject, take_turns
from bench.table import Line, Outcome
from dragoman.addresses import bindings
from dragoman.context import Caller, PrincipalType, RequestContext, Role, TenantId, enter_request
from dragoman.doors.rest.routes import RestDoor
from dragoman.infra.edge import AsgiScope, Receive, Send
from dragoman.services.tenancy.models import Plan, Tenant, TenantRef, TenantStatus

_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
_WHEN = datetime(2026, 1, 15, tzinfo=UTC)
_CALLER = Caller(
    TenantId(_ID), "demo", "ada", PrincipalType.USER, frozenset({Role.ORG_ADMIN}), "bench", _WHEN.timestamp()
)


def run(effort: Effort) -> Outcome:
    """Only what a door does: find the route, decode, encode."""
    outcome = Outcome("Projection of an operation, beside FastAPI")
    if importlib.util.find_spec("fastapi") is None:
        outcome.note = "Skipped: fastapi is not installed (it is no dependency; `uv pip install fastapi` to compare)."
        return outcome
    text = request("GET", "/api/tenant/demo", {})
    with Echo(__name__, "fastapi") as theirs, Echo(__name__, "plain") as ours:
        subjects = [Subject("FastAPI", theirs, text), Subject("RestDoor", ours, text)]
        take_turns(subjects, effort)
    fast, plain = subjects
    outcome.lines = [
        Line(fast.name, f"{fast.per_s:,.0f}/s", cpu_us=fast.cpu_us, typical_cpu_us=fast.typical_cpu_us),
        Line(plain.name, f"{plain.per_s:,.0f}/s", plain.per_s / fast.per_s, plain.cpu_us, plain.typical_cpu_us),
        Line("  by CPU", f"{fast.cpu_us / plain.cpu_us:.2f} times", fast.cpu_us / plain.cpu_us),
    ]
    outcome.figures = {subject.name: subject.figures() for subject in subjects}
    outcome.server_errors = sum(subject.server_errors for subject in subjects)
    return outcome


def _tenant(slug: str) -> Tenant:
    return Tenant(
        id=_ID,
        slug=slug,
        name="Demo",
        plan=Plan.STANDARD,
        status=TenantStatus.ACTIVE,
        settings={},
        version=1,
        created_at=_WHEN,
        updated_at=_WHEN,
    )


class OpenGate:
    """A gate without guards, that knows one tenant."""

    async def run(self, operation: Any, caller: Any, given: TenantRef, *, idempotency_key: str | None = None) -> Tenant:
        """The tenant that was asked for."""
        del operation, caller, idempotency_key
        return _tenant(given.tenant)


class _Plain:
    def __init__(self) -> None:
        self._door = RestDoor(cast("Any", OpenGate()), bindings())

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        enter_request(RequestContext(id="bench", door="rest", caller=_CALLER))
        await self._door(scope, receive, send)


def _fastapi() -> object:
    # By name, so that neither the type checker nor an installation needs it.
    app: Any = importlib.import_module("fastapi").FastAPI()

    async def get_tenant(tenant: str) -> dict[str, Any]:
        meta = {"requestId": "bench", "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}
        return {"success": True, "data": _tenant(tenant), "meta": meta}

    app.get("/api/tenant/{tenant}")(get_tenant)
    return app


if __name__ == "__main__":
    listen_and_serve(_fastapi() if sys.argv[1] == "fastapi" else _Plain())
