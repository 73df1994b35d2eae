"""A conversation as a value: adding to it gives a new one."""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, overload

from pydantic import BaseModel, ConfigDict

from dragoman.kit._content import Content, ContentLike, ToolResponsePart

Role = Literal["system", "user", "assistant", "tool"]


class Event(BaseModel):
    """One thing said by one side."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role
    content: Content

    @classmethod
    def system(cls, said: ContentLike) -> "Event":
        """What the model is told to be."""
        return cls(role="system", content=Content.of(said))

    @classmethod
    def user(cls, said: ContentLike) -> "Event":
        """What the caller says."""
        return cls(role="user", content=Content.of(said))

    @classmethod
    def assistant(cls, said: ContentLike) -> "Event":
        """What the agent or its model says."""
        return cls(role="assistant", content=Content.of(said))

    @classmethod
    def tool(cls, *responses: ToolResponsePart) -> "Event":
        """What the tools of one turn gave."""
        return cls(role="tool", content=Content(parts=responses))

    @property
    def text(self) -> str:
        """Its words."""
        return self.content.text


class Thread(BaseModel):
    """A conversation that never changes: every method that adds gives a new thread and leaves this one as it was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    events: tuple[Event, ...] = ()

    @classmethod
    def of(cls, said: "ThreadLike") -> "Thread":
        """A thread, an event, events, or anything a user can say.

        Raises:
            TypeError: it is none of these.
        """
        if isinstance(said, Thread):
            return said
        if isinstance(said, Event):
            return cls(events=(said,))
        if isinstance(said, list | tuple) and said and all(isinstance(one, Event) for one in said):
            return cls(events=tuple(one for one in said if isinstance(one, Event)))
        return cls(events=(Event.user(said),))  # pyright: ignore[reportArgumentType] what is left is content, or refused

    @classmethod
    def from_user(cls, said: ContentLike) -> "Thread":
        """A conversation that the caller begins."""
        return cls(events=(Event.user(said),))

    @classmethod
    def from_system(cls, said: ContentLike) -> "Thread":
        """A conversation that begins with what the model is told to be."""
        return cls(events=(Event.system(said),))

    def with_system(self, said: ContentLike) -> "Thread":
        """The same conversation under another system prompt; one that is there is replaced."""
        rest = (event for event in self.events if event.role != "system")
        return Thread(events=(Event.system(said), *rest))

    def add_event(self, event: Event) -> "Thread":
        """A new thread with one more event."""
        return Thread(events=(*self.events, event))

    def add_events(self, events: Iterable[Event]) -> "Thread":
        """A new thread with more events."""
        return Thread(events=(*self.events, *events))

    @property
    def system(self) -> str | None:
        """The system prompt, where there is one."""
        return next((event.text for event in self.events if event.role == "system"), None)

    @property
    def last(self) -> Event | None:
        """What was said last."""
        return self.events[-1] if self.events else None

    def __iter__(self) -> Iterator[Event]:  # pyright: ignore[reportIncompatibleMethodOverride] events, not fields
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> "Thread": ...
    def __getitem__(self, index: int | slice) -> "Event | Thread":
        return self.events[index] if isinstance(index, int) else Thread(events=self.events[index])


ThreadLike: TypeAlias = Thread | Event | ContentLike | Iterable[Event]
