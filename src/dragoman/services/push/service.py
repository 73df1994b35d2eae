"""Push configurations for those who ask: add, look, remove."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID, uuid5

import orjson

from dragoman.context import Caller
from dragoman.errors import IdempotencyConflict
from dragoman.infra.auth.vault import Vault
from dragoman.infra.db import check_key
from dragoman.infra.outbound import Guard
from dragoman.operations import Passage
from dragoman.services.audit.models import Detail, Outcome
from dragoman.services.audit.rows import Columns
from dragoman.services.audit.trail import Entry
from dragoman.services.push.errors import PushConfigNotFound, TooManyPushConfigs
from dragoman.services.push.models import NewPushConfig, PushConfig, place_of
from dragoman.services.push.operations import CREATE_PUSH, DELETE_PUSH
from dragoman.services.push.ports import PushConfigs, Records
from dragoman.services.tasks.identity import caller_json
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.ports import Tasks

MOST_CONFIGS: Final = 20


class PushService:
    """What the doors call, through the gate. `watch` is told of every task that somebody wants to hear of."""

    def __init__(
        self,
        store: PushConfigs,
        tasks: Tasks,
        *,
        guard: Guard,
        vault: Vault,
        records: Records,
        watch: Callable[[UUID], None],
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._guard = guard
        self._vault = vault
        self._records = records
        self._watch = watch
        self._new_id = new_id

    async def create(self, caller: Caller, ref: str, new: NewPushConfig, *, key: str | None = None) -> PushConfig:
        """Add a configuration, or replace the one of the same id: everything from now on is delivered to it.

        A task that rests is told once more, so that who comes too late for the end hears of it all the same. With an
        idempotency key and without an id, a repetition adds no second one.

        Raises:
            TaskNotFound: there is no such task, or it is another tenant's.
            OutboundRefused: the address must not be reached.
            IdempotencyConflict: the key was used for another address.
            TooManyPushConfigs: the task has enough.
        """
        task = await self._tasks.get(caller, ref)
        await self.check(new)
        if key is not None and new.id is None:
            new = await self._with_id_of_key(caller, task, new, key)
        return await self.attach(caller, task, new, after=task.seq - 1 if task.resting else task.seq)

    async def check(self, new: NewPushConfig) -> None:
        """Refuse an address before anything is done for it.

        Raises:
            OutboundRefused: it must not be reached.
        """
        await self._guard.check(new.url)

    async def attach(
        self, caller: Caller, task: Task, new: NewPushConfig, *, after: int, keep: bool = False
    ) -> PushConfig:
        """The same for a task at hand, which need not be stored yet: what happens after this event is delivered.

        With `keep`, a configuration of the same id stays as it is, with what it has been told.

        Raises:
            TooManyPushConfigs: the task has enough.
        """
        if keep and new.id and (known := await self._store.find(task.tenant_id, task.id, new.id)) is not None:
            return known
        config = PushConfig(task.id, new.id or str(self._new_id()), new.url, new.scheme)
        promises = config.promises(version=new.version, caller=caller_json(caller))
        secret = None
        if new.token or new.credentials:
            plain = orjson.dumps({"token": new.token, "credentials": new.credentials})
            secret = self._vault.seal(plain, place=place_of(task.tenant_id, task.id, config.id))
        async with self._records.recorded(caller, _entry(CREATE_PUSH, config, promises)):
            if not await self._store.put(
                task.tenant_id,
                config,
                caller=caller_json(caller),
                version=new.version,
                secret=secret,
                after=after,
                most=MOST_CONFIGS,
            ):
                raise TooManyPushConfigs(limit=MOST_CONFIGS)
        self._watch(task.id)
        return config

    async def _with_id_of_key(self, caller: Caller, task: Task, new: NewPushConfig, key: str) -> NewPushConfig:
        check_key(key)
        config_id = str(uuid5(task.id, f"{caller.subject}\n{key}"))
        earlier = await self._store.find(task.tenant_id, task.id, config_id)
        if earlier is not None and (earlier.url, earlier.scheme) != (new.url, new.scheme):
            raise IdempotencyConflict(key, task_id=str(task.id))
        return replace(new, id=config_id)

    async def get(self, caller: Caller, ref: str, config_id: str) -> PushConfig:
        """One configuration of a task.

        Raises:
            TaskNotFound: there is no such task, or it is another tenant's.
            PushConfigNotFound: it has no such configuration.
        """
        task = await self._tasks.get(caller, ref)
        config = await self._store.find(caller.tenant, task.id, config_id)
        if config is None:
            raise PushConfigNotFound(config_id)
        return config

    async def list(self, caller: Caller, ref: str, *, after: str | None, limit: int) -> list[PushConfig]:
        """Those of a task by their ids, one more than the limit when there are more.

        Raises:
            TaskNotFound: there is no such task, or it is another tenant's.
        """
        task = await self._tasks.get(caller, ref)
        return await self._store.list(caller.tenant, task.id, after, limit)

    async def delete(self, caller: Caller, ref: str, config_id: str) -> None:
        """Remove one; removing it again does nothing.

        Raises:
            TaskNotFound: there is no such task, or it is another tenant's.
        """
        task = await self._tasks.get(caller, ref)
        config = await self._store.find(caller.tenant, task.id, config_id)
        if config is not None:
            async with self._records.recorded(caller, _entry(DELETE_PUSH, config, None)):
                await self._store.remove(caller.tenant, task.id, config_id)


def _entry(passage: Passage, config: PushConfig, promises: Columns | None) -> Entry:
    # Only the host: the rest of an address may be a secret of its receiver.
    details: dict[str, Detail] = {"config": config.id, "host": urlsplit(config.url).hostname or ""}
    rows = {config.row: promises}
    return Entry(passage.name, Outcome.DONE, resource=str(config.task_id), details=details, rows=rows)
