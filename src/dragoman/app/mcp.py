"""Puts the MCP door together; what it needs of the SDK comes with its first request."""

import hmac
from dataclasses import replace

from dragoman.app.sessions import SessionContexts
from dragoman.app.tasks import TaskCore
from dragoman.app.tools import GateTools
from dragoman.context import Caller
from dragoman.doors.mcp.catalogue import Catalogue
from dragoman.doors.mcp.door import McpDoor
from dragoman.doors.mcp.metadata import Metadata
from dragoman.doors.mcp.offer import Offer
from dragoman.gate import Gate
from dragoman.infra.auth.authenticator import ONE_TIME_SCOPES
from dragoman.infra.auth.authority import Authority
from dragoman.infra.auth.keyring import Keyring
from dragoman.infra.config import Settings
from dragoman.infra.db import Database
from dragoman.infra.limits import Limiter
from dragoman.operations import AnyOperation, Handlers, Passage
from dragoman.services.tasks.engine.notifier import TaskNotifier


def build_mcp(
    settings: Settings,
    gate: Gate,
    tasks: TaskCore,
    tools: GateTools,
    authority: Authority,
    keyring: Keyring,
    contexts: SessionContexts,
    limiter: Limiter,
) -> McpDoor:
    """The door, closed until somebody asks."""

    def lacks_scope(caller: Caller, asked: AnyOperation | Passage) -> bool:
        if caller.scopes is None or authority.permits(caller, asked):
            return False
        return authority.permits(replace(caller, scopes=caller.scopes | {asked.permission}), asked)

    catalogue = Catalogue(tools, tasks.agent, may=authority.permits)
    offer = Offer(
        gate,
        tasks.service,
        catalogue,
        # Every process of the installation must be able to open what another has sealed.
        state_key=hmac.digest(keyring.pepper, b"mcp request state", "sha256"),
        session_key=hmac.digest(keyring.pepper, b"mcp session", "sha256"),
        max_body_bytes=settings.max_body_bytes,
        timeout_s=settings.request_timeout_s,
        changes=tasks.hub,
        valkey=limiter,
        streams=tasks.streams,
        contexts=contexts,
        resources=tasks.agent.resources if tasks.agent else (),
        prompts=tasks.agent.prompts if tasks.agent else (),
    )
    metadata = Metadata(
        issuer=settings.issuer if settings.external_issuer else None,
        # No token can have the scope of an invitation or of a link.
        scopes=[scope for scope in catalogue.permissions if scope not in ONE_TIME_SCOPES],
    )
    return McpDoor(offer, metadata=metadata, lacks_scope=lacks_scope)


def tell_of_changes(handlers: Handlers, db: Database, hub: TaskNotifier) -> None:
    """Nudge those who follow a tenant, in every process, once what its lists are made of was written."""

    async def told(caller: Caller) -> None:
        async def nudge() -> None:
            hub.happened(caller.tenant)

        await db.after_commit(nudge)

    handlers.tell_of_writes({"knowledge", "tenant", "user", "key", "token"}, told)
