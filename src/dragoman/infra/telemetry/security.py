"""Security events: a stream of their own, beside the normal log and a counter.

Each event names who (tenant, subject, ip), where (door, operation) and why. The file is written by `logs`, which sends
there whatever is marked `stream: security`, at every log level.
"""

import logging
from typing import Any, Final

from dragoman.context import Caller, RequestContext, current_request
from dragoman.errors import DragomanError, Kind
from dragoman.infra.telemetry.logs import emit
from dragoman.infra.telemetry.metrics import Metrics

_MAX_VALUE_CHARS: Final = 500
_MAX_NAME_CHARS: Final = 100
_MOST_FIELDS: Final = 20


class SecurityEvents:
    """Says what was refused, to whom, and why; never with the credential itself."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def denied(self, *, permission: str, reason: str, resource: str = "", caller: Caller | None = None) -> None:
        """A known caller asked for what it may not do; outside of a request, name the caller."""
        who = (
            {"tenant": caller.tenant_slug, "tenant_id": str(caller.tenant), "subject": caller.subject} if caller else {}
        )
        self.emit("access_denied", permission=permission, reason=reason, resource=resource, **who)

    def rejected_credentials(self, reason: str, *, credential_id: str = "") -> None:
        """Credentials were presented and are not valid: expired, revoked, unknown, forged."""
        self.emit("credentials_rejected", reason=reason, credential_id=credential_id)

    def limited(self, limit: str, *, retry_after_s: int) -> None:
        """A limit sent a caller away."""
        self.emit("rate_limited", limit=limit, retry_after_s=retry_after_s, reason=f"limit {limit} used up")

    def refused_input(self, error: DragomanError) -> None:
        """Log input that breaks a rule, once: the code and the names of the fields, never what was in them."""
        if error.kind is not Kind.INVALID or error.logged:
            return
        error.logged = True
        complaints: list[dict[str, str]] = error.details.get("errors", [])
        fields = list(dict.fromkeys(one["field"][:_MAX_NAME_CHARS] for one in complaints))[:_MOST_FIELDS]
        self.emit("input_refused", code=error.code, fields=fields)

    def foreign_origin(self, origin: str) -> None:
        """A browser asked on behalf of a page that is not configured."""
        self.emit("foreign_origin", origin=origin, reason="origin not configured")

    def emit(self, event: str, **fields: Any) -> None:
        """Record any other event; `event` is a name our code chose, since it becomes a label."""
        line: dict[str, Any] = {"stream": "security", "event": event}
        request = current_request()
        if request is not None:
            line.update(_where(request))
        line.update({name: _capped(value) for name, value in fields.items() if value != ""})
        self._metrics.security_event(event)
        emit(logging.WARNING, f"security: {event}", line)


def _where(request: RequestContext) -> dict[str, Any]:
    known = {"ip": request.ip, "door": request.door, "operation": request.operation, "route": request.route}
    return {name: value for name, value in known.items() if value}


def _capped(value: Any) -> Any:
    # Origins and names come from outside: a record must not grow with what a stranger sends.
    return value[:_MAX_VALUE_CHARS] if isinstance(value, str) else value
