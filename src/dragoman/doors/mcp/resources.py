"""What can be read without a tool: who one is, tasks, and items of knowledge, each under a URI."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import unquote

import orjson
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CompleteRequestParams, PaginatedRequestParams, ReadResourceRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.mcp.methods import Context, add, refuse_cursor, require_caller
from dragoman.doors.mcp.offer import Offer
from dragoman.doors.mcp.sessions import SESSION_URI, Sessions, session_of
from dragoman.doors.mcp.tasks_wire import detailed_task_json
from dragoman.doors.mcp.wire import INVALID_PARAMS, Json
from dragoman.errors import InvalidInput, NotFound
from dragoman.operations import AnyOperation
from dragoman.services.tasks.models import TaskQuery
from dragoman.services.tasks.passages import GET_TASK, LIST_TASKS, READ_AGENT

_JSON: Final = "application/json"
_TASK: Final = "dragoman://task/{task_id}"
_TASKS: Final = "dragoman://tasks"
_URI: Final = re.compile(r"dragoman://([a-z-]+)(?:/([^/?#]+))?")
_RECENT: Final = 50
_LATEST: Final = 100
# Of the era with a handshake; the other says that the URI is a wrong parameter.
_NOT_FOUND: Final = -32002


@dataclass(frozen=True, slots=True)
class Shelf:
    """An operation whose output is a resource; with `field` it is one for each value of that input."""

    noun: str
    operation: str
    title: str
    field: str = ""

    @property
    def uri(self) -> str:
        """The address, or the template of all addresses."""
        return f"dragoman://{self.noun}/{{{self.field}}}" if self.field else f"dragoman://{self.noun}"

    def shown(self, key: str) -> Json:
        """As it is listed, under `uri` or `uriTemplate`."""
        return {key: self.uri, "name": self.noun, "title": self.title, "mimeType": _JSON}


_SHELVES: Final = (
    Shelf("identity", "identity.show", "Who you are to this server"),
    Shelf("contracts-profile", "profile.show", "What contract work can be delegated here, and how"),
    Shelf("knowledge", "knowledge.show", "An item of knowledge", "id"),
)


class Resources:
    """Reads through the same gate as tools; a caller is shown what it may read."""

    def __init__(self, offer: Offer, sessions: Sessions) -> None:
        self._offer = offer
        self._sessions = sessions
        found = ((shelf, offer.catalogue.find_operation(shelf.operation)) for shelf in _SHELVES)
        self._shelves: dict[str, tuple[Shelf, AnyOperation]] = {
            shelf.noun: (shelf, operation) for shelf, operation in found if operation is not None
        }

    def join(self, server: "Server[Any]") -> None:
        """Be offered by the server."""
        add(server, "resources/list", PaginatedRequestParams, self.list)
        add(server, "resources/templates/list", PaginatedRequestParams, self.templates)
        add(server, "resources/read", ReadResourceRequestParams, self.read)
        add(server, "completion/complete", CompleteRequestParams, self.complete)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """Those with an address of their own, and the latest items of knowledge."""
        del ctx
        refuse_cursor(params)
        return {"resources": await self.listed(require_caller())}

    async def listed(self, caller: Caller) -> "list[Json]":
        """What this caller may read now."""
        shown = [shelf.shown("uri") for shelf, _ in self._open_to(caller) if not shelf.field]
        if self._sessions.is_open_to(caller):
            shown.append({"uri": SESSION_URI, "name": "session", "title": "What matters now", "mimeType": _JSON})
        shown += [_shown(one, "uri") for one in self._own(caller) if not one.is_template]
        if self._offer.catalogue.may(caller, LIST_TASKS):
            shown.append({"uri": _TASKS, "name": "tasks", "title": "The latest tasks", "mimeType": _JSON})
        return shown + await self._known(caller)

    async def _known(self, caller: Caller) -> "list[Json]":
        """The latest items of knowledge; an item has its own address, so that it can be watched."""
        query = self._offer.catalogue.find_operation("knowledge.query")
        if query is None or not self._offer.catalogue.may(caller, query):
            return []
        found = await self._offer.gate.run(query, caller, {"limit": _LATEST})
        return [
            {
                "uri": f"dragoman://knowledge/{item['id']}",
                "name": item["id"],
                "title": item["title"],
                "description": item["summary"],
                "mimeType": _JSON,
            }
            for item in found.model_dump(mode="json")["items"]
        ]

    async def templates(self, ctx: Context, params: PaginatedRequestParams) -> Json:
        """Those of which there are many."""
        del ctx
        refuse_cursor(params)
        caller = require_caller()
        shown = [shelf.shown("uriTemplate") for shelf, _ in self._open_to(caller) if shelf.field]
        if self._sessions.is_open_to(caller):
            about = {
                "uriTemplate": f"{SESSION_URI}/{{about}}",
                "name": "session",
                "title": "What matters for something",
            }
            shown.append({**about, "mimeType": _JSON})
        shown += [_shown(one, "uriTemplate") for one in self._own(caller) if one.is_template]
        if self._offer.catalogue.may(caller, GET_TASK):
            shown.append({"uriTemplate": _TASK, "name": "task", "title": "How a task stands", "mimeType": _JSON})
        return {"resourceTemplates": shown}

    async def read(self, ctx: Context, params: ReadResourceRequestParams) -> Json:
        """Read one."""
        uri = str(params.uri)
        try:
            return {"contents": [await self.contents(require_caller(), uri, ctx.meta)]}
        except (NotFound, InvalidInput):
            # One that is another tenant's, or that nobody could have, looks like one that is not there.
            code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri[:500]}) from None

    async def complete(self, ctx: Context, params: CompleteRequestParams) -> Json:
        """The ids of recent tasks that begin as the client has begun; of everything else nobody can know more."""
        del ctx
        caller, values = require_caller(), list[str]()
        if getattr(params.ref, "uri", None) == _TASK and params.argument.name == "task_id":
            await self._offer.gate.guard(LIST_TASKS, caller)
            found = await self._offer.tasks.page(caller, TaskQuery(limit=_RECENT))
            ids = [str(task.id) for task in found]
            values = [task_id for task_id in ids if task_id.startswith(params.argument.value)]
        return {"completion": {"values": values, "hasMore": False}}

    async def contents(self, caller: Caller, uri: str, meta: Mapping[str, Any] | None = None) -> Json:
        """What stands at an address; the meta of a request may say where a session belongs.

        Raises:
            NotFound: nothing does, or nothing for this caller.
        """
        own = next((one for one in self._own(caller) if one.has(uri)), None)
        if own is None:
            return {"uri": uri, "mimeType": _JSON, "text": await self._text(caller, uri, meta)}
        await self._offer.gate.guard(READ_AGENT, caller)
        found = await own.read(uri, caller)
        inside = {"text": found.data} if isinstance(found.data, str) else {"blob": found.base64}
        return {"uri": uri, "mimeType": found.mime, **inside}

    async def _text(self, caller: Caller, uri: str, meta: Mapping[str, Any] | None) -> str:
        match = _URI.fullmatch(uri)
        noun, ref = (match[1], unquote(match[2] or "")) if match else ("", "")
        if noun == "task" and ref:
            await self._offer.gate.guard(GET_TASK, caller)
            return orjson.dumps(detailed_task_json(await self._offer.tasks.get(caller, ref))).decode()
        if noun == "session":
            return orjson.dumps(asdict(await self._sessions.begin(caller, session_of(meta, ref)))).decode()
        if noun == "tasks" and not ref:
            await self._offer.gate.guard(LIST_TASKS, caller)
            found = await self._offer.tasks.page(caller, TaskQuery(limit=_RECENT))
            shown = [{"task_id": str(one.id), "state": one.state.value, "skill": one.skill} for one in found[:_RECENT]]
            return orjson.dumps({"tasks": shown}).decode()
        if noun not in self._shelves:
            raise NotFound("resource", uri[:200])
        shelf, operation = self._shelves[noun]
        if bool(shelf.field) != bool(ref):
            raise NotFound("resource", uri[:200])
        raw = {shelf.field: ref} if shelf.field else {}
        return (await self._offer.gate.run(operation, caller, raw)).model_dump_json()

    def _own(self, caller: Caller) -> "list[kit.Resource]":
        """What the agent has for this caller."""
        if not self._offer.resources or not self._offer.catalogue.may(caller, READ_AGENT):
            return []
        return [one for one in self._offer.resources if one.is_offered(caller)]

    def _open_to(self, caller: Caller) -> "list[tuple[Shelf, AnyOperation]]":
        return [pair for pair in self._shelves.values() if self._offer.catalogue.may(caller, pair[1])]


def find_task(uri: str) -> str | None:
    """The id of the task whose address this is."""
    match = _URI.fullmatch(uri)
    return unquote(match[2]) if match and match[1] == "task" and match[2] else None


def _shown(resource: kit.Resource, key: str) -> Json:
    shown = {key: resource.uri, "name": resource.name, "mimeType": resource.mime}
    return shown | {"description": resource.description} if resource.description else shown
