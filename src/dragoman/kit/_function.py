"""A model call as a function: one turn in, one typed value out."""

from typing import Generic, TypeVar

from dragoman.kit._errors import LlmOutputError
from dragoman.kit._llm import Llm, LlmResponse, Usage
from dragoman.kit._output import Misfit, Output
from dragoman.kit._thread import Event, Thread, ThreadLike

T = TypeVar("T")


class LlmFunction(Generic[T]):
    """Ask a model once, get a value of the given type. It keeps no conversation: what you pass in is all it sees."""

    def __init__(self, llm: Llm, output_type: type[T], *, system: str | None = None) -> None:
        self._llm = llm
        self._output = Output(output_type)
        self._system = system
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What all runs of this function have used, failed ones included."""
        return self._usage

    async def run(self, said: ThreadLike) -> T:
        """The answer to text, content, an event or a whole thread.

        An answer that does not fit is sent back once, with what is wrong with it.

        Raises:
            LlmOutputError: the second answer does not fit either.
            LlmUnavailable: the model does not answer.
        """
        value, _ = await self.run_and_continue(said)
        return value

    async def run_and_continue(self, said: ThreadLike) -> tuple[T, Thread]:
        """The answer, and the thread with the answer at its end, to go on from; a repair leaves no trace in it."""
        given = Thread.of(said)
        thread = given if self._system is None else given.with_system(self._system)
        answer = await self._ask(thread)
        try:
            value = self._output.read(answer.text)
        except Misfit as misfit:
            answer = await self._ask(thread.add_events([answer, self._output.repair(misfit)]))
            value = self._read_or_give_up(answer, thread)
        return value, given.add_event(answer)

    def _read_or_give_up(self, answer: Event, thread: Thread) -> T:
        try:
            return self._output.read(answer.text)
        except Misfit as misfit:
            raise LlmOutputError(str(misfit), raw=answer.text, thread=thread, usage=self._usage) from None

    async def _ask(self, thread: Thread) -> Event:
        response: LlmResponse = await self._llm.generate(self._output.request(self._llm, thread))
        self._usage += response.usage
        return Event.assistant(response.content)
