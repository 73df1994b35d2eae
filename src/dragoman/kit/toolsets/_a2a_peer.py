"""Another A2A agent that is handed work step by step, by callers that keep their own account of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, uuid5

from pydantic import JsonValue

from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content
from dragoman.kit._lifecycle import TaskState
from dragoman.kit.toolsets._a2a import card_address
from dragoman.kit.toolsets._a2a_line import A2aLine
from dragoman.kit.toolsets._a2a_wire import Card, Interface, WireAnswer, WireTask

if TYPE_CHECKING:
    import httpx

_LARGEST_ANSWER_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PeerTask:
    """How the work stands; an agent that answered with a message and no task has no id, and is done."""

    id: str | None
    state: TaskState
    context_id: str | None = None
    message: Content | None = None
    artifacts: tuple[Artifact, ...] = ()
    wants_auth: bool = False


class A2aPeer:
    """One agent, found by the address of its card, or of the host that has it in the usual place.

    Credentials in `headers` go where the card is, and nowhere else. The client decides what can be reached.

    Raises:
        ValueError: the address is none of HTTP.
    """

    def __init__(
        self, http: "httpx.AsyncClient", card_url: str, *, name: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._line = A2aLine(http, name, headers=headers or {}, max_answer_bytes=_LARGEST_ANSWER_BYTES)
        self._card_url = card_address(card_url)
        self._found: tuple[Card, Interface] | None = None

    async def supports(self, extension: str) -> bool:
        """Whether its card declares an extension.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: there is no card that can be used.
        """
        card, _ = await self._where()
        return card.declares(extension)

    async def send(
        self,
        data: JsonValue,
        *,
        key: str,
        extensions: tuple[str, ...] = (),
        task_id: str | None = None,
        context_id: str | None = None,
    ) -> PeerTask:
        """Hand something over, or answer what a task asks; the answer comes as soon as the agent has one.

        The same key again is the same message, for an agent that keeps keys.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: it refused, or cannot be understood.
        """
        _, there = await self._where()
        message: dict[str, Any] = {
            "messageId": str(uuid5(NAMESPACE_URL, key)),
            "role": "ROLE_USER",
            "parts": [{"data": data, "mediaType": "application/json"}],
            "metadata": {"idempotencyKey": key},
        }
        message |= {"extensions": list(extensions)} if extensions else {}
        message |= {"taskId": task_id} if task_id else {}
        message |= {"contextId": context_id} if context_id else {}
        return self._read(await self._line.send(there, message, key=key, extensions=extensions))

    async def follow(self, task_id: str) -> PeerTask:
        """Wait until a task has ended or asks; an agent that is restarted meanwhile is given a few moments.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: it refused, or cannot be understood.
        """
        _, there = await self._where()
        task = await self._line.wait(there, await self._line.get(there, task_id))
        return self._read(WireAnswer(task=task))

    async def cancel(self, task_id: str) -> None:
        """Stop a task.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: it refused: the task has ended, for one.
        """
        _, there = await self._where()
        await self._line.cancel(there, task_id)

    async def _where(self) -> tuple[Card, Interface]:
        if self._found is None:
            card = await self._line.read_card(self._card_url)
            self._found = card, self._line.find_interface(card, self._card_url, ())
        return self._found

    def _read(self, answer: WireAnswer) -> PeerTask:
        try:
            if answer.task is not None:
                return _read_task(answer.task)
            said = answer.message
            return PeerTask(None, TaskState.COMPLETED, message=said.read() if said else None)
        except ValueError as error:
            raise self._line.malformed(str(error)[:500]) from None


def _read_task(task: WireTask) -> PeerTask:
    artifacts = tuple(task.read_artifacts())
    return PeerTask(task.id, task.state, task.context_id, task.read_message(), artifacts, task.wants_auth)
