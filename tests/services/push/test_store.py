"""The contract of a store of push configurations: PostgreSQL and the fake that we ship keep the same promises."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID, uuid4

import pytest

from dragoman.infra.db import Database
from dragoman.services.push.models import PushConfig
from dragoman.services.push.ports import PushConfigs
from dragoman.services.push.store import PushStore
from dragoman.services.push.testing import InMemoryPushConfigs
from tests.infra.databases import superuser

STORED = "SELECT version, secret, delivered_seq FROM push_configs WHERE tenant_id = $1 AND task_id = $2 AND id = $3"


class Look(Protocol):
    """Looks behind the store."""

    async def __call__(self, tenant: UUID, config: PushConfig) -> tuple[Any, ...]:
        """Return version, secret and the last event that is not to be delivered."""
        ...


@dataclass(frozen=True)
class UnderTest:
    """A store, and a task of a tenant of the test's own."""

    store: PushConfigs
    look: Look
    tenant: UUID = field(default_factory=uuid4)
    task_id: UUID = field(default_factory=uuid4)

    def config(self, config_id: str) -> PushConfig:
        """Return a configuration, not stored."""
        return PushConfig(self.task_id, config_id, f"https://{config_id}.example", "Bearer")

    async def put(self, config: PushConfig, *, tenant: UUID | None = None, **changes: Any) -> bool:
        """Store it."""
        fields: dict[str, Any] = {"caller": {}, "version": "1.0", "secret": b"sealed", "after": 3, "most": 20}
        fields |= changes
        return await self.store.put(tenant or self.tenant, config, **fields)

    async def ids(self, after: str | None = None, limit: int = 20) -> list[str]:
        """Return those of the task."""
        return [one.id for one in await self.store.list(self.tenant, self.task_id, after, limit)]


@pytest.fixture(params=["fake", "postgresql"])
async def configs(request: pytest.FixtureRequest) -> AsyncIterator[UnderTest]:
    """The fake, then the store that it stands for."""
    if request.param == "fake":
        fake = InMemoryPushConfigs()

        async def look(tenant: UUID, config: PushConfig) -> tuple[Any, ...]:
            stored = fake.stored[tenant, config.task_id, config.id]
            return stored.version, stored.secret, stored.after

        yield UnderTest(fake, look)
        return
    url = request.getfixturevalue("schema_url")

    async def look_at_row(tenant: UUID, config: PushConfig) -> tuple[Any, ...]:
        [row] = await superuser(url, STORED, tenant, config.task_id, config.id)
        return tuple(row)

    db = Database(url, size=4)
    yield UnderTest(PushStore(db), look_at_row)
    await db.stop()


async def test_a_configuration_is_found_as_it_was_stored(configs: UnderTest) -> None:
    config = configs.config("a")

    assert await configs.put(config)

    assert await configs.store.find(configs.tenant, configs.task_id, "a") == config
    assert await configs.look(configs.tenant, config) == ("1.0", b"sealed", 3)


async def test_one_that_is_replaced_goes_on_where_the_one_before_was(configs: UnderTest) -> None:
    await configs.put(configs.config("a"))
    changed = replace(configs.config("a"), url="https://other.example", scheme=None)

    assert await configs.put(changed, version="0.3", secret=None, after=9)

    assert await configs.store.list(configs.tenant, configs.task_id, None, 20) == [changed]
    assert await configs.look(configs.tenant, changed) == ("0.3", None, 3)


async def test_a_task_that_has_enough_takes_no_more_but_a_replacement(configs: UnderTest) -> None:
    for config_id in ("a", "b"):
        await configs.put(configs.config(config_id), most=2)

    assert not await configs.put(configs.config("c"), most=2)
    assert await configs.put(configs.config("b"), most=2)
    assert await configs.put(replace(configs.config("c"), task_id=uuid4()), most=2)

    assert await configs.ids() == ["a", "b"]


async def test_a_list_goes_by_ids_and_has_one_more_than_its_limit(configs: UnderTest) -> None:
    for config_id in ("c", "a", "d", "b"):
        await configs.put(configs.config(config_id))

    assert await configs.ids(limit=2) == ["a", "b", "c"]
    assert await configs.ids(after="b", limit=2) == ["c", "d"]


async def test_one_that_is_removed_is_gone_and_removing_it_again_does_nothing(configs: UnderTest) -> None:
    await configs.put(configs.config("a"))

    for _ in range(2):
        await configs.store.remove(configs.tenant, configs.task_id, "a")

    assert await configs.store.find(configs.tenant, configs.task_id, "a") is None
    assert await configs.put(configs.config("a"), after=9)
    assert (await configs.look(configs.tenant, configs.config("a")))[2] == 9


async def test_another_tenant_sees_counts_replaces_and_removes_nothing(configs: UnderTest) -> None:
    other, config = uuid4(), configs.config("a")
    await configs.put(config, most=1)

    assert await configs.store.find(other, configs.task_id, "a") is None
    assert await configs.store.list(other, configs.task_id, None, 20) == []
    await configs.store.remove(other, configs.task_id, "a")
    assert await configs.put(replace(config, url="https://rival.example"), tenant=other, most=1)

    assert await configs.store.find(configs.tenant, configs.task_id, "a") == config


async def test_the_same_configuration_put_by_many_at_one_moment_is_stored_once(configs: UnderTest) -> None:
    config = configs.config("a")

    stored = await asyncio.gather(*(configs.put(config, after=n, most=1) for n in range(4)))

    assert stored == [True] * 4
    assert await configs.ids() == ["a"]


async def test_configurations_put_by_many_at_one_moment_are_no_more_than_a_task_may_have(configs: UnderTest) -> None:
    stored = await asyncio.gather(*(configs.put(configs.config(f"c{n}"), most=2) for n in range(4)))

    assert sorted(stored) == [False, False, True, True]
    assert len(await configs.ids()) == 2
