"""The reference server of A2A: the official SDK as its documentation sets it up, with work as small as a tool of ours.

It checks no token, counts no limit and writes no log, so all that it spends goes into the protocol and the task.
"""

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from a2a.helpers.proto_helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette

from bench.echo import Echo, listen_and_serve

URL: Final = "http://127.0.0.1/a2a"
_UNTRACED: Final = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}
_WHO: Final = {"tenant": "demo", "subject": "admin", "type": "user", "roles": ["org_admin"], "scopes": None}


@contextmanager
def reference(database_url: str = "", *, traced: bool = False) -> Generator[Echo]:
    """The server in a process of its own; in memory unless it is given a database."""
    with Echo("bench.reference", database_url, environment={} if traced else _UNTRACED) as server:
        yield server


class Executor(AgentExecutor):
    """Says who is asking; `count=N` in the message asks for a text in N pieces, `tck-input-required` for a question."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do the work."""
        assert context.message is not None
        task = context.current_task or new_task_from_user_message(context.message)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        said = context.get_user_input()
        if said.startswith("tck-input-required"):
            await updater.requires_input(new_text_message("What else?", role=Role.ROLE_AGENT))
            return
        if (count := next((int(word[6:]) for word in said.split() if word.startswith("count=")), 0)) > 0:
            for number in range(1, count + 1):
                piece: Any = [new_text_part(f"chunk-{number} ")]
                await updater.add_artifact(piece, "chunked", append=number > 1, last_chunk=number == count)
        else:
            await updater.add_artifact([new_data_part(_WHO)], "identity_show", "identity_show")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nobody cancels here."""
        raise NotImplementedError


def serve(database_url: str) -> None:
    """Serve JSON-RPC on /a2a."""
    card = AgentCard(
        name="reference",
        description="The SDK's own server.",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=URL, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="work", name="work", description="Works.", tags=["work"])],
    )
    handler = DefaultRequestHandler(Executor(), _store(database_url), card)
    listen_and_serve(Starlette(routes=create_jsonrpc_routes(handler, "/a2a")))


def _store(database_url: str) -> TaskStore:
    if not database_url:
        return InMemoryTaskStore()
    # Made here, before there are requests: the store creates its table with the first ones, and they race for it.
    asyncio.run(_create_table(database_url))
    return DatabaseTaskStore(create_async_engine(database_url, pool_size=20))


async def _create_table(database_url: str) -> None:
    engine = create_async_engine(database_url)
    await DatabaseTaskStore(engine).initialize()
    await engine.dispose()


if __name__ == "__main__":
    serve(sys.argv[1])
