"""The gate: every operation of every door passes these guards, in this order.

    admission    refuses revoked credentials and callers over a limit   one call to Valkey
    authority    refuses callers without the permission                 Cedar
    input        refuses input that does not fit the operation          strict JSON, read once
    idempotency  returns the first output of a repeated key             } one transaction
    handler      runs the operation                                     } with the
    audit        records who did what                                   } operation's rows

A read passes the first three and runs the handler. A write commits key, rows and audit record together, or none of
them; writes of several requests may share a transaction (`grouped_writes`). A write that is refused or fails leaves
a record, unless admission refused it.
"""

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import structlog

from dragoman.arguments import Raw, read_input
from dragoman.context import Caller, RequestContext, current_request
from dragoman.errors import DragomanError, Forbidden, Internal, TimedOut, UpstreamUnavailable
from dragoman.grouped_writes import GroupedWrites, Write
from dragoman.infra.auth.authority import Authority
from dragoman.infra.db import Database, IdempotencyKeys, Scope, check_key, scope_of
from dragoman.infra.digests import digest_of
from dragoman.infra.limits import Admission, Admitted
from dragoman.infra.telemetry import Metrics, SecurityEvents, Tracer
from dragoman.operations import AnyOperation, Handlers, I, Input, O, Operation, Output, Passage, Recorded
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.statements import collected
from dragoman.services.audit.trail import AuditTrail, Entry

_LOG = structlog.get_logger(__name__)
_LONGEST_RESOURCE: Final = 200
# An input as a door received it, or as our own code built it.
Sent = I | dict[str, Any] | bytes | Raw[I]


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards that an operation passes, with their stores."""

    admission: Admission
    authority: Authority
    keys: IdempotencyKeys
    core_keys: IdempotencyKeys
    trail: AuditTrail


@dataclass(frozen=True, slots=True)
class Observers:
    """Metrics, security events and traces."""

    metrics: Metrics
    security: SecurityEvents
    tracer: Tracer


class Gate:
    """Runs operations for the doors, which know nothing else of the services."""

    def __init__(
        self, handlers: Handlers, guards: Guards, observers: Observers, db: Database, *, core_db: Database
    ) -> None:
        self._handlers = handlers
        self._guards = guards
        self._observers = observers
        self._db = db
        self._core_db = core_db
        self._grouped = GroupedWrites(db, guards.keys, guards.trail)

    async def run(
        self,
        operation: Operation[I, O],
        caller: Caller,
        raw: Sent[I],
        *,
        admitted: Admitted | None = None,
        idempotency_key: str | None = None,
    ) -> O:
        """Return the operation's output.

        `raw` is the input as it was sent: JSON as values or as text, or a `Raw` that reads itself. An `Input` is used
        as it is. With the token of `admit` the run is not counted again. A write with an idempotency key happens once:
        a repetition gets the first output, without its secrets.

        Raises:
            DragomanError: a guard refused, or the operation failed; other exceptions are logged and become `Internal`.
        """
        context = current_request()
        if context is not None and not (admitted is not None and admitted.included):
            context.operation = operation.name
        started = perf_counter()
        outcome = "INTERNAL_ERROR"
        try:
            with self._observers.tracer.start(operation.name, tenant=str(caller.tenant), subject=caller.subject):
                await self._admit(operation, caller, admitted)
                await self._authorise(operation, caller)
                output = await self._run(operation, caller, raw, idempotency_key, context)
            outcome = "ok"
        except DragomanError as error:
            outcome = error.code
            self._observers.security.refused_input(error)
            raise
        except asyncio.CancelledError:
            # Only a time-out cancels an operation; what it had written is rolled back.
            outcome = TimedOut.code
            raise
        except Exception as error:
            _LOG.exception("operation.failed", operation=operation.name)
            await self._record(operation, caller, Outcome.FAILED, Internal.code, type(error).__name__)
            raise Internal from error
        finally:
            self._observers.metrics.operations.observe(
                operation.name, operation.skill, outcome, perf_counter() - started
            )
        return output

    async def find_done(
        self, operation: Operation[I, O], caller: Caller, raw: dict[str, Any], *, idempotency_key: str
    ) -> O | None:
        """Return the output of a write that was done under this key, without its secrets; None when it was not done.

        The input is compared without its secrets, as for every repetition.

        Raises:
            DragomanError: a guard refused, or the key was used with another input.
        """
        await self.guard(operation, caller)
        request = read_input(operation.input, raw)
        digest = digest_of(operation.name, request.model_dump(mode="json"))
        output = await self._guards.keys.find(caller, idempotency_key, digest)
        return operation.output.model_validate(output) if output is not None else None

    async def guard(
        self, operation: AnyOperation | Passage, caller: Caller, *, admitted: Admitted | None = None
    ) -> None:
        """Check admission and authority alone, for a message or a stream that a protocol carries by itself.

        Raises:
            DragomanError: a guard refused.
        """
        if (context := current_request()) is not None:
            context.operation = operation.name
        await self._admit(operation, caller, admitted)
        await self._authorise(operation, caller)

    async def admit(self, operation: AnyOperation | Passage, caller: Caller) -> Admitted:
        """Count an operation before it runs, so that a refusal leaves no trace of it.

        The token is good for one `run` or `guard` of this operation by this caller, which is then not counted again.
        That call still checks the permission. A token that does not fit, or is used twice, is ignored.

        Raises:
            DragomanError: the credential was revoked, or a limit is used up.
        """
        if (context := current_request()) is not None:
            context.operation = operation.name
        return await self._guards.admission.admit(caller, operation)

    def include(self, operation: AnyOperation | Passage, caller: Caller) -> Admitted:
        """Return a token for an operation that the server adds to a request which was counted already.

        Callers are charged only for the operations that they ask for.
        """
        return Admitted(caller, operation, included=True)

    async def record_refusal(self, passage: Passage, caller: Caller, resource: str, error: DragomanError) -> None:
        """Record that a message or a stream was refused.

        `resource` may be as the caller sent it, of any length and with characters that PostgreSQL does not store.
        """
        outcome = Outcome.REFUSED if isinstance(error, Forbidden) else Outcome.FAILED
        named = resource.replace("\x00", "")[:_LONGEST_RESOURCE]
        await self._record(passage, caller, outcome, error.code, error.message, resource=named)

    async def _admit(self, operation: AnyOperation | Passage, caller: Caller, admitted: Admitted | None) -> None:
        if admitted is None or not admitted.use(caller, operation):
            await self._guards.admission.admit(caller, operation)

    async def _run(
        self,
        operation: Operation[I, O],
        caller: Caller,
        raw: Sent[I],
        key: str | None,
        context: RequestContext | None,
    ) -> O:
        if not operation.writes:
            return await self._handlers.handler(operation)(caller, _read(operation, raw))
        request: I | None = None
        try:
            request = _read(operation, raw)
            if key is not None:
                # Before anything is done: a long operation works first and claims its key afterwards.
                check_key(key)
            return await self._write(operation, caller, request, key, context)
        except Forbidden as error:  # a rule that looks at the input: a role too high, a scope too wide
            lacking = str(error.details.get("permission", operation.permission))
            self._observers.security.denied(permission=lacking, reason=error.message)
            await self._record(operation, caller, Outcome.REFUSED, error.code, error.message, request)
            raise
        except DragomanError as error:
            await self._record(operation, caller, Outcome.FAILED, error.code, error.message, request)
            raise

    async def _authorise(self, operation: AnyOperation | Passage, caller: Caller) -> None:
        refusal = self._guards.authority.refusal(caller, operation)
        if refusal is None:
            return
        self._observers.security.denied(permission=operation.permission, reason=refusal)
        await self._record(operation, caller, Outcome.REFUSED, Forbidden.code, refusal)
        raise Forbidden(
            f"{operation.name} needs the permission {operation.permission}", permission=operation.permission
        )

    async def _write(
        self, operation: Operation[I, O], caller: Caller, request: I, key: str | None, context: RequestContext | None
    ) -> O:
        if operation.recorded is Recorded.BATCH:
            return await self._handlers.handler(operation)(caller, request)
        db, _, keys = self._place_of(operation, caller)
        digest = digest_of(operation.name, request.model_dump(mode="json"))
        if (grouped := self._handlers.find_grouped(operation)) is not None and not db.in_unit:
            plan = grouped.plan(caller, request)
            policy = self._guards.authority.version
            write = Write(caller, plan, key, digest, _resource(request, None), policy)
            written = await self._grouped.add(operation, grouped, write)
            return _replayed(operation, written.output, context) if written.replayed else written.output
        if operation.long and key is not None and not db.in_unit:
            async with keys.begun(caller, key, digest) as earlier:
                if earlier is not None:
                    return _replayed(operation, earlier, context)
                return await self._write_alone(operation, caller, request, key, digest, context)
        return await self._write_alone(operation, caller, request, key, digest, context)

    async def _write_alone(
        self,
        operation: Operation[I, O],
        caller: Caller,
        request: I,
        key: str | None,
        digest: bytes,
        context: RequestContext | None,
    ) -> O:
        """Run a write in a transaction of its own."""
        handler, prepare = self._handlers.handler(operation), self._handlers.find_prepare(operation)
        db, scope, keys = self._place_of(operation, caller)
        done: O | None = None
        if operation.long or prepare is not None:
            earlier = await keys.find(caller, key, digest) if key is not None else None
            if earlier is None and prepare is not None:
                request = await prepare(caller, request)
            if earlier is None and operation.long:
                done = await handler(caller, request)
        async with db.unit(scope):
            if key is not None:
                earlier = await keys.claim(caller, key, digest)
                if earlier is not None:
                    return _replayed(operation, earlier, context)
            with collected() as rows:
                output = done if done is not None else await handler(caller, request)
            if key is not None:
                await keys.keep(caller, key, output.without_secrets().model_dump(mode="json"))
            if operation.recorded is not Recorded.STEP:
                entry = Entry(
                    operation.name,
                    Outcome.DONE,
                    resource=_resource(request, output),
                    input_sha256=digest.hex(),
                    policy=self._guards.authority.version,
                    rows=rows,
                )
                await self._guards.trail.add(scope, caller, entry)
        return output

    def _place_of(self, operation: AnyOperation, caller: Caller) -> tuple[Database, Scope, IdempotencyKeys]:
        """Return where a write and its key are stored: steps of tasks by the core, which works for all tenants."""
        if operation.recorded is Recorded.STEP:
            return self._core_db, Scope(), self._guards.core_keys
        return self._db, scope_of(caller), self._guards.keys

    async def _record(
        self,
        operation: AnyOperation | Passage,
        caller: Caller,
        outcome: Outcome,
        code: str,
        reason: str,
        request: Input | None = None,
        *,
        resource: str | None = None,
    ) -> None:
        """Record a refusal or a failure in a transaction of its own; failing to write it does not change the answer."""
        entry = Entry(
            operation.name,
            outcome,
            resource=_resource(request, None) if request is not None else resource,
            policy=self._guards.authority.version,
            code=code,
            reason=reason[:500],
        )
        try:
            scope = Scope(caller.tenant)
            async with self._db.unit(scope):
                await self._guards.trail.add(scope, caller, entry)
        except UpstreamUnavailable as error:
            _LOG.warning("audit.not_recorded", operation=operation.name, outcome=outcome.value, reason=error.message)
        except Exception:  # noqa: BLE001 - a guard: the refusal stands without its record
            _LOG.exception("audit.not_recorded", operation=operation.name, outcome=outcome.value)


def _read(operation: Operation[I, O], raw: Sent[I]) -> I:
    return raw if isinstance(raw, Input) else read_input(operation.input, raw)


def _replayed(operation: Operation[I, O], output: Any, context: RequestContext | None) -> O:
    if context is not None:
        context.response_headers.append((b"idempotency-replayed", b"true"))
    return operation.output.model_validate(output)


def _resource(request: Input, output: Output | None) -> str | None:
    """Return the id of the resource: that of the output, else the first one that the input names."""
    if (output_id := getattr(output, "id", None)) is not None:
        return str(output_id)
    for name in type(request).model_fields:
        if (name == "tenant" or name.endswith("_id")) and (value := getattr(request, name)) is not None:
            return str(value)
    return None
