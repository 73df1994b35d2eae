# ruff: noqa: ARG002 what stands in for others takes what they take
"""The rules of push configurations over the store in memory: what is sealed, from where it is told, what is refused."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, cast
from uuid import UUID, uuid4

import orjson
import pytest

from dragoman.context import Caller
from dragoman.errors import DragomanError
from dragoman.infra.auth.vault import Vault
from dragoman.infra.outbound import Guard
from dragoman.services.audit.trail import Entry
from dragoman.services.push.errors import PushConfigNotFound, TooManyPushConfigs
from dragoman.services.push.models import NewPushConfig, PushConfig, place_of
from dragoman.services.push.service import MOST_CONFIGS, PushService
from dragoman.services.push.testing import InMemoryPushConfigs
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.ports import Tasks
from tests.services.tasks.crew import caller_of

ADA = caller_of()
NOW = datetime(2026, 5, 1, tzinfo=UTC)
NEW = NewPushConfig("https://hooks.example/a", "1.0", "a", token="t0ken", scheme="Bearer", credentials="s3cret")


@dataclass
class OneTask:
    """Tasks, of which there is one."""

    task: Task

    async def get(self, caller: Caller, ref: str) -> Task:
        """Return it, whoever asks."""
        return self.task


@dataclass
class Pushes:
    """The service with what is behind it."""

    task: Task
    store: InMemoryPushConfigs = field(default_factory=InMemoryPushConfigs)
    vault: Vault = field(default_factory=lambda: Vault(b"k" * 32))
    watched: list[UUID] = field(default_factory=list[UUID])
    trail: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list[tuple[str, str, dict[str, Any]]])

    def __post_init__(self) -> None:
        self.service = PushService(
            self.store,
            cast("Tasks", OneTask(self.task)),
            guard=Guard(resolve=resolve),
            vault=self.vault,
            records=self,
            watch=self.watched.append,
            new_id=uuid4,
        )

    @asynccontextmanager
    async def recorded(self, caller: Caller, entry: Entry) -> AsyncGenerator[None]:
        """Keep the records."""
        yield
        self.trail.append((caller.subject, entry.operation, dict(entry.details or {})))

    async def create(self, **changes: Any) -> PushConfig:
        """Create one as ada."""
        return await self.service.create(ADA, "ref", replace(NEW, **changes))


async def resolve(host: str, port: int) -> list[Any]:
    """All names lead to a public address, but for one."""
    return [ip_address("127.0.0.1" if host == "inside.example" else "93.184.215.14")]


def task_in(state: State) -> Task:
    """A task of ada's tenant with seven events."""
    return Task(ADA.tenant, uuid4(), None, "c", "ada", None, state, NOW, None, None, None, [], [], {}, {}, 7, 1, NOW)


@pytest.fixture
def pushes() -> Pushes:
    """Of a task that is being worked on."""
    return Pushes(task_in(State.IN_PROGRESS))


async def test_secrets_are_sealed_for_their_place_and_never_shown(pushes: Pushes) -> None:
    config = await pushes.create()
    stored = pushes.store.stored[ADA.tenant, pushes.task.id, "a"]
    secret = stored.secret or b""

    assert config == PushConfig(pushes.task.id, "a", NEW.url, "Bearer")
    assert b"s3cret" not in secret
    opened = pushes.vault.open(secret, place=place_of(ADA.tenant, pushes.task.id, "a"))
    assert orjson.loads(opened) == {"token": "t0ken", "credentials": "s3cret"}
    with pytest.raises(ValueError, match="cannot be opened"):
        pushes.vault.open(secret, place=place_of(ADA.tenant, pushes.task.id, "b"))


async def test_one_without_secrets_has_none_and_gets_an_id(pushes: Pushes) -> None:
    config = await pushes.create(id=None, token=None, credentials=None)

    assert UUID(config.id)
    assert pushes.store.stored[ADA.tenant, pushes.task.id, config.id].secret is None


@pytest.mark.parametrize(
    ("state", "after"), [(State.IN_PROGRESS, 7), (State.QUEUED, 7), (State.INPUT_REQUIRED, 6), (State.SUCCEEDED, 6)]
)
async def test_one_who_comes_when_a_task_rests_is_told_of_that_once_more(state: State, after: int) -> None:
    pushes = Pushes(task_in(state))

    await pushes.create()

    assert pushes.store.stored[ADA.tenant, pushes.task.id, "a"].after == after
    assert pushes.watched == [pushes.task.id]


@pytest.mark.parametrize("url", ["https://inside.example/", "http://hooks.example/", "https://127.0.0.1/", "nonsense"])
async def test_an_address_that_must_not_be_reached_leaves_nothing_behind(pushes: Pushes, url: str) -> None:
    with pytest.raises(DragomanError):
        await pushes.create(url=url)

    assert (pushes.store.stored, pushes.watched) == ({}, [])


async def test_a_task_that_has_enough_is_not_watched_for_more(pushes: Pushes) -> None:
    for number in range(MOST_CONFIGS):
        await pushes.create(id=f"c{number}")
    pushes.watched.clear()

    with pytest.raises(TooManyPushConfigs):
        await pushes.create(id="one-more")

    assert pushes.watched == []


async def test_one_that_is_not_there_is_not_found_and_may_be_deleted(pushes: Pushes) -> None:
    await pushes.create()
    await pushes.service.delete(ADA, "ref", "a")
    await pushes.service.delete(ADA, "ref", "a")

    with pytest.raises(PushConfigNotFound):
        await pushes.service.get(ADA, "ref", "a")
    assert await pushes.service.list(ADA, "ref", after=None, limit=5) == []
    about = {"config": "a", "host": "hooks.example"}
    assert pushes.trail == [("ada", "push.create", about), ("ada", "push.delete", about)]
