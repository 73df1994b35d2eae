"""JSON-RPC to one agent, for as long as one call of a tool takes."""

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError

from dragoman.backoff import read_retry_after
from dragoman.kit._errors import RemoteFailed, RemoteUnavailable
from dragoman.kit._validation import field_errors, readable
from dragoman.kit.toolsets._a2a_wire import Card, Interface, WireAnswer, WireTask

if TYPE_CHECKING:
    import httpx

M = TypeVar("M", bound=BaseModel)
Json = dict[str, Any]
_A_REQUEST_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_MOST_FAILURES: Final = 8
# A task that is gone, and one that no longer takes messages.
_GONE: Final = (-32001, -32004)


class TaskGone(RemoteFailed):
    """The agent does not know the task or the conversation any more, or takes no message for it as it stands."""


class A2aLine:
    """Asks one agent. Whatever is wrong with its answers is an error that names the agent.

    Redirects are not followed, so that credentials cannot be led astray.
    """

    def __init__(
        self, http: "httpx.AsyncClient", agent: str, *, headers: Mapping[str, str], max_answer_bytes: int
    ) -> None:
        self._http, self._agent = http, agent
        # Nothing packed, so that a small answer cannot become a large one here.
        self._headers = {**headers, "A2A-Version": "1.0", "Accept-Encoding": "identity"}
        self._max_bytes = max_answer_bytes

    async def read_card(self, url: str) -> Card:
        """Its card.

        Raises:
            RemoteUnavailable: it does not answer.
            RemoteFailed: what is there is no card.
        """
        status, body = await self._exchange("GET", url, timeout_s=_A_REQUEST_S)
        if status != 200:
            raise RemoteFailed(
                f"the agent {self._agent!r} shows no card: status {status}", reason="REMOTE_REFUSED", status=status
            )
        return self._read(Card, self._parsed(body))

    def find_interface(self, card: Card, found_at: str, allow_hosts: Collection[str]) -> Interface:
        """Where to send messages.

        Raises:
            RemoteFailed: the card names no address that can be used.
        """
        try:
            return card.find_interface(found_at, allow_hosts)
        except ValueError as error:
            raise self.malformed(str(error)) from None

    async def send(
        self, interface: Interface, message: Json, *, key: str, extensions: Collection[str] = ()
    ) -> WireAnswer:
        """Send a message; the answer comes as soon as the agent has one. The same key again is the same message."""
        params = {"message": message, "configuration": {"returnImmediately": True}}
        headers = {"Idempotency-Key": key, **({"A2A-Extensions": ", ".join(extensions)} if extensions else {})}
        called = await self._call(interface, "SendMessage", params, headers=headers, timeout_s=None)
        answer = self._read(WireAnswer, called)
        if (answer.task is None) == (answer.message is None):
            raise self.malformed("it answered with neither a task nor a message")
        return answer

    async def get(self, interface: Interface, task_id: str) -> WireTask:
        """How a task stands."""
        return self._read(WireTask, await self._call(interface, "GetTask", {"id": task_id, "historyLength": 0}))

    async def wait(self, interface: Interface, task: WireTask) -> WireTask:
        """Look until the task has ended or asks; an agent that is restarted meanwhile is given a few moments."""
        pause_s, failures = _FIRST_PAUSE_S, 0
        while not task.state.at_rest:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                task, failures = await self.get(interface, task.id), 0
            except RemoteUnavailable:
                failures += 1
                if failures > _MOST_FAILURES:
                    raise
        return task

    async def cancel(self, interface: Interface, task_id: str) -> None:
        """Stop a task."""
        await self._call(interface, "CancelTask", {"id": task_id})

    def malformed(self, words: str) -> RemoteFailed:
        """The error for an answer that makes no sense."""
        return RemoteFailed(f"the agent {self._agent!r} cannot be understood: {words}", reason="REMOTE_MALFORMED")

    async def _call(
        self,
        interface: Interface,
        method: str,
        params: Json,
        *,
        headers: Json | None = None,
        timeout_s: float | None = _A_REQUEST_S,
    ) -> object:
        asked = params | ({"tenant": interface.tenant} if interface.tenant else {})
        body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": asked}
        status, answered = await self._exchange("POST", interface.url, body, headers, timeout_s=timeout_s)
        if status in (401, 403):
            raise self._refused("it does not take our credentials", status=status)
        answer = self._parsed(answered)
        error: object = answer.get("error")
        if isinstance(error, dict):
            told = cast("Json", error)
            words, code = str(told.get("message"))[:500], told.get("code")
            if code in _GONE:
                raise TaskGone(f"the agent {self._agent!r} refused: {words}", reason="REMOTE_REFUSED", remote_code=code)
            raise self._refused(words, remote_code=code)
        if status != 200 or "result" not in answer:
            raise self.malformed(f"it answered with status {status} and no result")
        return answer["result"]

    async def _exchange(
        self, method: str, url: str, body: Json | None = None, headers: Json | None = None, *, timeout_s: float | None
    ) -> tuple[int, bytes]:
        import httpx  # noqa: PLC0415 an agent without remote tools does without it

        try:
            async with self._http.stream(
                method, url, json=body, headers=self._headers | (headers or {}), timeout=timeout_s
            ) as response:
                read = bytearray()
                async for chunk in response.aiter_raw():
                    read += chunk
                    if len(read) > self._max_bytes:
                        raise RemoteFailed(
                            f"the answer of the agent {self._agent!r} is larger than {self._max_bytes} bytes",
                            reason="REMOTE_TOO_LARGE",
                        )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteUnavailable(self._agent, type(error).__name__) from error
        if response.status_code == 429 or response.status_code >= 500:
            wait_s = read_retry_after(response.headers.get("retry-after"))
            raise RemoteUnavailable(self._agent, f"status {response.status_code}", retry_after_s=wait_s)
        return response.status_code, bytes(read)

    def _parsed(self, body: bytes) -> Json:
        try:
            answer: object = json.loads(body)
        except (ValueError, RecursionError):
            raise self.malformed("it did not answer with JSON") from None
        if not isinstance(answer, dict):
            raise self.malformed("it did not answer with a JSON object")
        return cast("Json", answer)

    def _read(self, model: type[M], value: object) -> M:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            raise self.malformed(readable(field_errors(error))[:500]) from None

    def _refused(self, words: str, **details: object) -> RemoteFailed:
        return RemoteFailed(f"the agent {self._agent!r} refused: {words}", reason="REMOTE_REFUSED", **details)
