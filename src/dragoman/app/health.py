"""Puts together what `/health` tells: a check for every dependency of a process."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from dragoman.app.knowledge import KnowledgeCore
from dragoman.app.memory import MemoryCore
from dragoman.infra.db import Database
from dragoman.infra.embeddings import Meanings
from dragoman.infra.jobs import JobGroup
from dragoman.infra.limits import Limiter
from dragoman.infra.telemetry import Degraded, Health
from dragoman.plugin import Vertical
from dragoman.services.audit.sealer import Sealer


class Checked(Protocol):
    """What the checks look at."""

    db: Database
    limiter: Limiter
    sealer: Sealer
    health: Health
    memory: MemoryCore
    knowledge: KnowledgeCore
    jobs: JobGroup
    verticals: Sequence[Vertical]


def register_checks(application: Checked) -> None:
    """Let `/health` tell of every dependency of a process."""
    _register_own(application)
    for vertical in application.verticals:
        for name, check in vertical.checks.items():
            application.health.register(name, check, critical=False)


def _register_own(application: Checked) -> None:

    async def postgresql() -> None:
        await application.db.ping()

    async def valkey() -> None:
        await application.limiter.ping()

    async def audit() -> None:
        lag_s = await application.sealer.measure()
        if lag_s > 5:
            raise Degraded(f"sealing is {lag_s:.0f} s behind")

    async def git() -> None:
        if (wrong := await application.knowledge.repositories.check()) is not None:
            raise Degraded(wrong)

    async def jobs() -> str | None:
        # A job that failed at the last moment is being tried again; the words are safe to show anyone.
        failing = [job for job in application.jobs.states() if job.status != "running"]
        if failing:
            raise Degraded("; ".join(f"{job.name} {job.status}: {job.reason or 'unknown'}" for job in failing))

    application.health.register("postgresql", postgresql, critical=True)
    application.health.register("valkey", valkey, critical=False)
    application.health.register("audit", audit, critical=False)
    application.health.register("git", git, critical=False)
    application.health.register("jobs", jobs, critical=False)
    application.health.register("memory", _meaning_of(application.memory.meanings), critical=False)
    application.health.register("knowledge", _meaning_of(application.knowledge.meanings), critical=False)


def _meaning_of(meanings: Meanings) -> Callable[[], Awaitable[str | None]]:
    """Degraded when there should be meaning, and there is not, or it is far behind."""

    async def check() -> str | None:
        told, well = await meanings.check()
        if not well:
            raise Degraded(told)
        return told or None

    return check
