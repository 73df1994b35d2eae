"""The agent card: written from what is registered, so that it cannot promise anything else."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from dragoman import kit
from dragoman.context import Caller
from dragoman.doors.a2a.ecosystem import A2aAdapter, A2aEcosystem
from dragoman.doors.a2a.negotiation import OLDER, SESSION_EXTENSION, TOOLS_EXTENSION, VERSION
from dragoman.doors.a2a.reading import Modes
from dragoman.doors.a2a.signing import CardSigner
from dragoman.errors import IdempotencyConflict
from dragoman.operations import AnyOperation
from dragoman.services.tasks.models import IDEMPOTENCY_EXTENSION
from dragoman.services.workers.profile import PROFILE_EXTENSION, PROFILE_PATH, PROFILE_VERSIONS

Json = dict[str, Any]
Shape = Callable[[Json, str], Json]
CARD_PATH: Final = "/.well-known/agent-card.json"
RPC_PATH: Final = "/a2a"
# Some clients take the address of the card for a directory, and put a slash behind it.
RPC_PATHS: Final = frozenset({RPC_PATH, f"{RPC_PATH}/"})
REST_PATH: Final = "/a2a/rest"
_TEXT: Final = "text/plain"
_JSON: Final = "application/json"
_MOST_KEPT: Final = 100
_IDEMPOTENCY: Final[Json] = {
    "uri": IDEMPOTENCY_EXTENSION,
    "description": "The same key with the same message is the same task, on every door and over restarts.",
    "required": False,
    "params": {
        "keys": ["Idempotency-Key", "message.metadata.idempotencyKey"],
        "scope": ["tenant", "caller"],
        "digest": "RFC 8785, SHA-256",
        "conflict": IdempotencyConflict.code,
        "replayed": "task.metadata.replayed",
    },
}
_SESSION_CONTEXT: Final[Json] = {
    "uri": SESSION_EXTENSION,
    "description": "For clients that activate it, the first task of a new context carries the memories that fit what "
    "was said and the rules in force. A message that names a tool begins no session, and its task carries none.",
    "required": False,
    "params": {
        "carried": "task.metadata.session_context",
        "fields": ["memories", "constraints", "omitted", "unavailable"],
        "asked": "message.metadata.session_context",
        "asks": ["ids", "max_characters"],
    },
}


@dataclass(frozen=True, slots=True)
class Card:
    """The public card, ready to be sent."""

    body: bytes
    etag: str


class Cards:
    """Makes cards: one for everybody, and one for each caller with what that caller may do."""

    def __init__(
        self,
        ecosystem: A2aEcosystem,
        agent: kit.Agent | None,
        *,
        version: str,
        signer: CardSigner,
        grpc_port: int | None = None,
    ) -> None:
        self._ecosystem = ecosystem
        self._agent = agent
        self._version = version
        self.signer = signer
        self._grpc_port = grpc_port
        self._kept: dict[tuple[str, Shape | None], Card] = {}
        skills = agent.skills if agent else ()
        self.modes = Modes(
            read=frozenset({_TEXT, _JSON}).union(*(skill.info.input_modes for skill in skills)),
            written=frozenset({_TEXT, _JSON}).union(*(skill.info.output_modes for skill in skills)),
        )

    async def public(self, base_url: str, shape: Shape | None = None) -> Card:
        """For everybody, with the addresses under which the server was asked; `shape` is that of an older version."""
        kept = self._kept.get((base_url, shape))
        if kept is None:
            card = await self._card(base_url, self._ecosystem.adapter(None))
            body = orjson.dumps(shape(card, base_url) if shape else self.signer.sign(card, base_url))
            kept = Card(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[base_url, shape] = kept
        return kept

    async def extended(self, base_url: str, caller: Caller) -> Json:
        """For one caller: nothing that it would be refused."""
        card = await self._card(base_url, self._ecosystem.adapter(caller))
        return self.signer.sign(card, base_url)

    async def _card(self, base_url: str, adapter: A2aAdapter) -> Json:
        agent = self._agent
        tools = await adapter.tools()
        own = agent.skills if agent else ()
        tools += [_kit_tool(skill, tool) for skill in own for tool in skill.tools]
        # What the agent was written for comes first: who reads a part of a card reads its beginning.
        skills = [*(_kit_skill(skill) for skill in own), *_operation_skills(adapter.operations)]
        return {
            "name": agent.name if agent else "Dragoman",
            "description": agent.description
            if agent
            else "One governed back-end for AI agents: operations as tools, behind one set of guards.",
            "version": agent.version if agent else self._version,
            "supportedInterfaces": interfaces(base_url, self._grpc_port),
            "capabilities": {
                "streaming": True,
                "pushNotifications": True,
                "extendedAgentCard": True,
                "extensions": [
                    _tools_extension(tools),
                    _IDEMPOTENCY,
                    _profile_extension(base_url),
                    _SESSION_CONTEXT,
                ],
            },
            "securitySchemes": {
                "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
                "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
            },
            "securityRequirements": [{"schemes": {"bearer": {"list": []}}}, {"schemes": {"apiKey": {"list": []}}}],
            "defaultInputModes": sorted(self.modes.read),
            "defaultOutputModes": sorted(self.modes.written),
            "skills": skills,
            "documentationUrl": f"{base_url}/docs",
        }


def interfaces(base_url: str, grpc_port: int | None) -> list[Json]:
    """What there is, the preferred one first; clients read a gRPC address without a scheme."""
    found = [
        (f"{base_url}{RPC_PATH}", "JSONRPC", VERSION),
        (f"{base_url}{REST_PATH}", "HTTP+JSON", VERSION),
    ]
    if grpc_port is not None:
        found.append((_with_port(base_url, grpc_port), "GRPC", VERSION))
    found.append((f"{base_url}{RPC_PATH}", "JSONRPC", OLDER))
    return [{"url": url, "protocolBinding": binding, "protocolVersion": version} for url, binding, version in found]


def _with_port(base_url: str, port: int) -> str:
    host = urlsplit(base_url).hostname or ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _profile_extension(base_url: str) -> Json:
    return {
        "uri": PROFILE_EXTENSION,
        "description": "Contract work that can be delegated here, as tasks with an envelope; the profile says how.",
        "required": False,
        "params": {"profile": f"{base_url}{PROFILE_PATH}", "versions": list(PROFILE_VERSIONS)},
    }


def _tools_extension(tools: list[Json]) -> Json:
    return {
        "uri": TOOLS_EXTENSION,
        "description": 'A message with a data part {"tool": name, "arguments": {...}} goes straight to that tool.',
        "required": False,
        "params": {"tools": tools},
    }


def _operation_skills(operations: list[AnyOperation]) -> list[Json]:
    by_noun: dict[str, list[AnyOperation]] = {}
    for operation in operations:
        by_noun.setdefault(operation.skill, []).append(operation)
    return [
        {
            "id": noun,
            "name": noun.capitalize(),
            "description": f"{noun.capitalize()}: {'; '.join(operation.summary for operation in group)}.",
            "tags": [noun, "tools"],
            "examples": [
                orjson.dumps({"tool": operation.tool, "arguments": operation.example}).decode()
                for operation in group
                if operation.example
            ],
            "inputModes": [_JSON],
            "outputModes": [_JSON],
        }
        for noun, group in by_noun.items()
    ]


def _kit_tool(skill: kit.Skill, tool: kit.Tool) -> Json:
    return {
        "name": tool.name,
        "skill": skill.id,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }


def _kit_skill(skill: kit.Skill) -> Json:
    info = skill.info
    return {
        "id": info.id,
        "name": info.name,
        "description": info.description,
        "tags": list(info.tags) or [info.id],
        "examples": list(info.examples),
        "inputModes": list(info.input_modes),
        "outputModes": list(info.output_modes),
    }
