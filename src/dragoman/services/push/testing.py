"""Push configurations in memory, for tests of the rules: `PushStore` passes the same contract tests."""

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from dragoman.services.push.models import PushConfig
from dragoman.services.tasks.models import Json

_Key: TypeAlias = tuple[UUID, UUID, str]


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """A configuration with what its deliverer would be given; what happens after event `after` is delivered."""

    config: PushConfig
    version: str
    secret: bytes | None = field(repr=False)
    after: int


class InMemoryPushConfigs:
    """Implements `PushConfigs`. `stored` is what it holds, by tenant, task and id."""

    def __init__(self) -> None:
        self.stored: dict[_Key, StoredConfig] = {}

    async def put(
        self,
        tenant: UUID,
        config: PushConfig,
        *,
        caller: Json,
        version: str,
        secret: bytes | None,
        after: int,
        most: int,
    ) -> bool:
        """Add a configuration, or replace the one of the same id; False when the task has `most` others."""
        del caller  # for the deliverer alone
        key = (tenant, config.task_id, config.id)
        if sum(other[:2] == key[:2] and other != key for other in self.stored) >= most:
            return False
        before = self.stored.get(key)
        self.stored[key] = StoredConfig(config, version, secret, after if before is None else before.after)
        return True

    async def find(self, tenant: UUID, task_id: UUID, config_id: str) -> PushConfig | None:
        """Return one of a task's configurations."""
        stored = self.stored.get((tenant, task_id, config_id))
        return stored.config if stored else None

    async def remove(self, tenant: UUID, task_id: UUID, config_id: str) -> None:
        """Remove one; nothing happens where there is none."""
        self.stored.pop((tenant, task_id, config_id), None)

    async def list(self, tenant: UUID, task_id: UUID, after: str | None, limit: int) -> list[PushConfig]:
        """Return those of a task by their ids; one more than the limit when there are more."""
        keys = sorted(key for key in self.stored if key[:2] == (tenant, task_id) and (after is None or key[2] > after))
        return [self.stored[key].config for key in keys[: limit + 1]]
