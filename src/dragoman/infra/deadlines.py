"""How long a piece of work may take, with one timer for all that have the same time."""

import asyncio


class Deadline:
    """When the running task is cancelled, unless it is lifted before; `expired` says that it was."""

    __slots__ = ("_all", "due", "expired", "task")

    def __init__(self, every: "dict[Deadline, None]", task: "asyncio.Task[object]", due: float) -> None:
        self._all = every
        self.task = task
        self.due = due
        self.expired = False

    def lift(self) -> None:
        """Take as long as it takes."""
        self._all.pop(self, None)

    def caught(self) -> bool:
        """Whether a cancellation that has just arrived was this deadline's alone; it is then over."""
        return self.expired and self.task.uncancel() == 0


class Deadlines:
    """All have the same time, so those that came first are late first, and one timer can watch them."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        self._open: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """For the running task, from now on.

        Raises:
            RuntimeError: no task is running.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be late")
        deadline = Deadline(self._open, task, loop.time() + self.after_s)
        self._open[deadline] = None
        if self._timer is None:
            self._timer = loop.call_later(self.after_s, self._look, loop)
        return deadline

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._open:
            first = next(iter(self._open))
            if first.due > now:
                self._timer = loop.call_later(first.due - now, self._look, loop)
                return
            first.lift()
            first.expired = True
            first.task.cancel()
