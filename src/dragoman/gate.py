"""One door behind all doors: every operation, whoever asks and however, goes through these guards in this order.

    admission    revoked? over a limit?                    one call to Valkey
    authority    may this caller do this?                  Cedar
    input        is it what the operation takes?           strict JSON, read once
    idempotency  done before under this key?               } one transaction
    handler      the operation itself                      } with the
    audit        who did what                              } operation's rows

A read runs the first three and the handler. A write commits key, rows and audit record together, or none of them; one
that is refused or fails, for whatever reason but admission, leaves a record of that.
"""

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import structlog

from dragoman.arguments import Raw, read_input
from dragoman.context import Caller, RequestContext, current_request
from dragoman.errors import DragomanError, Forbidden, Internal, TimedOut, UpstreamUnavailable
from dragoman.infra.auth.authority import Authority
from dragoman.infra.db import Database, IdempotencyKeys, Scope, check_key, scope_of
from dragoman.infra.digests import digest_of
from dragoman.infra.limits import Admission, Admitted
from dragoman.infra.telemetry import Metrics, SecurityEvents, Tracer
from dragoman.operations import AnyOperation, Handlers, I, Input, O, Operation, Output, Passage, Recorded
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.trail import AuditTrail, Entry

_LOG = structlog.get_logger(__name__)
_LONGEST_RESOURCE: Final = 200
# An input as a door has it, or as our own code has made it.
Sent = I | dict[str, Any] | bytes | Raw[I]


@dataclass(frozen=True, slots=True)
class Guards:
    """What stands between a caller and an operation."""

    admission: Admission
    authority: Authority
    keys: IdempotencyKeys
    core_keys: IdempotencyKeys
    trail: AuditTrail


@dataclass(frozen=True, slots=True)
class Watch:
    """Who looks on."""

    metrics: Metrics
    security: SecurityEvents
    tracer: Tracer


class Gate:
    """Runs operations. Doors hold a gate and nothing else of the services."""

    def __init__(self, handlers: Handlers, guards: Guards, watch: Watch, db: Database, *, core_db: Database) -> None:
        self._handlers = handlers
        self._guards = guards
        self._watch = watch
        self._db = db
        self._core_db = core_db

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

        `raw` is the input as it was sent: JSON as values or as text, or a `Raw` with its own way to be read. An input
        that our own code has made is taken as it is. With the token of `admit` the run is not counted again. A write
        with an idempotency key happens once: a repetition gets the first output, without its secrets.

        Raises:
            DragomanError: a guard refused, or the operation failed; the unforeseen is `Internal`, logged once here.
        """
        request = current_request()
        if request is not None and not (admitted is not None and admitted.included):
            request.operation = operation.name
        started = perf_counter()
        outcome = "INTERNAL_ERROR"
        try:
            with self._watch.tracer.start(operation.name, tenant=str(caller.tenant), subject=caller.subject):
                await self._admit(operation, caller, admitted)
                await self._authorise(operation, caller)
                output = await self._run(operation, caller, raw, idempotency_key, request)
            outcome = "ok"
        except DragomanError as error:
            outcome = error.code
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
            self._watch.metrics.operations.observe(operation.name, operation.skill, outcome, perf_counter() - started)
        return output

    async def find_done(
        self, operation: Operation[I, O], caller: Caller, raw: dict[str, Any], *, idempotency_key: str
    ) -> O | None:
        """What a write gave when it was done under this key, without its secrets; None when it was not done.

        Secrets of the input count for nothing here, as for every repetition.

        Raises:
            DragomanError: a guard refused, or the key was used with another input.
        """
        await self.guard(operation, caller)
        given = read_input(operation.input, raw)
        digest = digest_of(operation.name, given.model_dump(mode="json"))
        found = await self._guards.keys.find(caller, idempotency_key, digest)
        return operation.output.model_validate(found) if found is not None else None

    async def guard(
        self, operation: AnyOperation | Passage, caller: Caller, *, admitted: Admitted | None = None
    ) -> None:
        """Ask admission and authority alone, for what a protocol carries by itself: a message, a stream.

        Raises:
            DragomanError: a guard refused.
        """
        if (request := current_request()) is not None:
            request.operation = operation.name
        await self._admit(operation, caller, admitted)
        await self._authorise(operation, caller)

    async def admit(self, operation: AnyOperation | Passage, caller: Caller) -> Admitted:
        """Count what is about to be done, so that it is refused before there is a trace of it.

        The token is for one `run` or `guard` of this operation for this caller, which is then not counted again, and
        which decides by itself whether the caller may. With anything else, or a second time, it is worth nothing.

        Raises:
            DragomanError: the credential was revoked, or a limit is used up.
        """
        if (request := current_request()) is not None:
            request.operation = operation.name
        return await self._guards.admission.admit(caller, operation)

    def include(self, operation: AnyOperation | Passage, caller: Caller) -> Admitted:
        """Return a token for what the server looks up by itself while it answers a request that was counted.

        A caller pays for what it asked for, and not for what we add to the answer.
        """
        return Admitted(caller, operation, included=True)

    async def record_refusal(self, passage: Passage, caller: Caller, resource: str, error: DragomanError) -> None:
        """Keep on record that something which a protocol carries by itself was refused.

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
        request: RequestContext | None,
    ) -> O:
        if not operation.writes:
            return await self._handlers.handler(operation)(caller, _read(operation, raw))
        given: I | None = None
        try:
            given = _read(operation, raw)
            if key is not None:
                # Before anything is done: a long operation works first and claims its key afterwards.
                check_key(key)
            return await self._write(operation, caller, given, key, request)
        except Forbidden as error:  # by a rule that looks at the input: a role too high, a scope too wide
            self._watch.security.denied(permission=operation.permission, reason=error.message)
            await self._record(operation, caller, Outcome.REFUSED, error.code, error.message, given)
            raise
        except DragomanError as error:
            await self._record(operation, caller, Outcome.FAILED, error.code, error.message, given)
            raise

    async def _authorise(self, operation: AnyOperation | Passage, caller: Caller) -> None:
        refusal = self._guards.authority.refusal(caller, operation)
        if refusal is None:
            return
        self._watch.security.denied(permission=operation.permission, reason=refusal)
        await self._record(operation, caller, Outcome.REFUSED, Forbidden.code, refusal)
        raise Forbidden(
            f"{operation.name} needs the permission {operation.permission}", permission=operation.permission
        )

    async def _write(
        self, operation: Operation[I, O], caller: Caller, given: I, key: str | None, request: RequestContext | None
    ) -> O:
        handler, prepare = self._handlers.handler(operation), self._handlers.find_prepare(operation)
        if operation.recorded is Recorded.BATCH:
            return await handler(caller, given)
        by_core = operation.recorded is Recorded.STEP
        db, scope = (self._core_db, Scope()) if by_core else (self._db, scope_of(caller))
        keys = self._guards.core_keys if by_core else self._guards.keys
        digest = digest_of(operation.name, given.model_dump(mode="json"))
        done: O | None = None
        if operation.long or prepare is not None:
            earlier = await keys.find(caller, key, digest) if key is not None else None
            if earlier is None and prepare is not None:
                given = await prepare(caller, given)
            if earlier is None and operation.long:
                done = await handler(caller, given)
        async with db.unit(scope):
            if key is not None:
                earlier = await keys.claim(caller, key, digest)
                if earlier is not None:
                    if request is not None:
                        request.response_headers.append((b"idempotency-replayed", b"true"))
                    return operation.output.model_validate(earlier)
            output = done if done is not None else await handler(caller, given)
            if key is not None:
                await keys.keep(caller, key, output.without_secrets().model_dump(mode="json"))
            if not by_core:
                entry = Entry(
                    operation.name,
                    Outcome.DONE,
                    resource=_resource(given, output),
                    input_sha256=digest.hex(),
                    policy=self._guards.authority.version,
                )
                await self._guards.trail.add(scope, caller, entry)
        return output

    async def _record(
        self,
        operation: AnyOperation | Passage,
        caller: Caller,
        outcome: Outcome,
        code: str,
        reason: str,
        given: Input | None = None,
        *,
        resource: str | None = None,
    ) -> None:
        """A refusal or a failure changed nothing, so its record stands alone; failing to write it changes no answer."""
        entry = Entry(
            operation.name,
            outcome,
            resource=_resource(given, None) if given is not None else resource,
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
        except Exception:  # noqa: BLE001 - a guard: the refusal stands, whatever became of its record
            _LOG.exception("audit.not_recorded", operation=operation.name, outcome=outcome.value)


def _read(operation: Operation[I, O], raw: Sent[I]) -> I:
    return raw if isinstance(raw, Input) else read_input(operation.input, raw)


def _resource(given: Input, output: Output | None) -> str | None:
    """What it was done to: the id of what came out, else what the input refers to."""
    if (made := getattr(output, "id", None)) is not None:
        return str(made)
    for name in type(given).model_fields:
        if (name == "tenant" or name.endswith("_id")) and (value := getattr(given, name)) is not None:
            return str(value)
    return None
