"""Which limits a request has to pass: by address for strangers, by principal, tenant and skill for callers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.context import Caller, Role, current_request
from dragoman.errors import RateLimited, Unauthenticated
from dragoman.infra.batching import Batcher
from dragoman.infra.limits.admitted import Admitted
from dragoman.infra.limits.headers import limit_headers
from dragoman.infra.limits.limiter import Limiter
from dragoman.infra.limits.networks import network_of
from dragoman.infra.limits.revocations import Revocable
from dragoman.infra.limits.verdict import Limit, Verdict
from dragoman.infra.telemetry import Metrics, SecurityEvents

_MOST_KEPT = 10_000
_A2A, _GATEWAY = "a2a", "gateway"


class Metered(Protocol):
    """What is being asked for; an Operation is one."""

    @property
    def skill(self) -> str:
        """The noun it belongs to."""
        ...

    @property
    def rate_class(self) -> str:
        """`work`, or `poll` for reads that only ask how things are."""
        ...


@dataclass(frozen=True, slots=True)
class Quotas:
    """Requests a minute."""

    ip: int
    user: int
    tenant: int
    skills: dict[str, int]
    poll_factor: int
    plan_factors: dict[str, float]
    a2a_tenant: int = 100
    agent: int = 10


class Admission:
    """Asks the limiter once a request, and says in the response what is left."""

    def __init__(self, limiter: Limiter, quotas: Quotas, *, metrics: Metrics, security: SecurityEvents) -> None:
        self._limiter = limiter
        self._quotas = quotas
        self._metrics = metrics
        self._security = security
        self._kept: dict[tuple[str, ...], tuple[str, tuple[Limit, ...]]] = {}
        self._rechecks: Batcher[Caller, bool] = Batcher(self._recheck)

    async def admit(self, caller: Caller, asked: Metered | None) -> Admitted:
        """Count a request of a caller; None asks for nothing that there is, and counts as work all the same.

        Raises:
            Unauthenticated: the credential was revoked.
            RateLimited: one of the limits is used up; none of them was counted.
        """
        partition, limits = self._limits(caller, asked)
        verdict = await self._limiter.check(partition, limits, _revocable(caller))
        if verdict.revoked:
            self._security.rejected_credentials("revoked", credential_id=caller.credential)
            raise Unauthenticated("revoked")
        self._settle(verdict, partition, asked.skill if asked else "")
        return Admitted(caller, asked)

    async def is_revoked(self, caller: Caller) -> bool:
        """Check whether the credential of a caller was revoked since it was let in; nothing is counted.

        This is for work and streams that outlast their request. Those of one caller that ask at once share a check.

        Raises:
            UpstreamUnavailable: revocations were never read, neither from Valkey nor from the source.
        """
        return await self._rechecks.put(caller)

    async def _recheck(self, callers: Sequence[Caller]) -> Sequence[bool]:
        asked = [(str(caller.tenant), _revocable(caller)) for caller in callers]
        unique = list(dict.fromkeys(asked))
        verdicts = await asyncio.gather(*(self._limiter.check(partition, (), who) for partition, who in unique))
        revoked = {who: verdict.revoked for who, verdict in zip(unique, verdicts, strict=True)}
        return [revoked[who] for who in asked]

    async def admit_stranger(self, ip: str) -> None:
        """Let somebody in who has shown no valid credentials.

        Raises:
            RateLimited: too many requests from this address, or from its network where it is one of IPv6.
        """
        verdict = await self._limiter.check(f"ip:{network_of(ip)}", (Limit("ip", "", self._quotas.ip),))
        self._settle(verdict, "", "")

    def _settle(self, verdict: Verdict, tenant: str, skill: str) -> None:
        if (request := current_request()) is not None:
            request.response_headers += limit_headers(verdict)
        limit = verdict.limit
        self._metrics.limits.used(limit.name, 1 - verdict.remaining / limit.quota)
        if not verdict.allowed:
            self._metrics.limits.refused(tenant, skill, limit.name)
            self._security.limited(limit.name, retry_after_s=verdict.retry_after_s)
            raise RateLimited(limit.name, retry_after_s=verdict.retry_after_s)

    def _limits(self, caller: Caller, asked: Metered | None) -> tuple[str, tuple[Limit, ...]]:
        skill, rate_class = (asked.skill, asked.rate_class) if asked else ("", "work")
        request = current_request()
        door = request.door if request is not None else ""
        who = (str(caller.tenant), caller.subject, caller.plan, skill, rate_class, door, str(caller.per_min))
        if (kept := self._kept.get(who)) is not None:
            return kept
        quotas = self._quotas
        # Polling has counters of its own, so that a caller is not starved by asking.
        polls = rate_class == "poll"
        times, prefix = (quotas.poll_factor, "poll-") if polls else (1, "")
        tenant_quota = max(1, int(quotas.tenant * quotas.plan_factors.get(caller.plan, 1) * times))
        # An agent at the gateway is one certificate.
        principal = ("agent", caller.per_min or quotas.agent) if door == _GATEWAY else ("user", quotas.user)
        limits = [
            Limit(f"{prefix}{principal[0]}", f"{prefix}{principal[0]}:{caller.subject}", principal[1] * times),
            Limit(f"{prefix}tenant", f"{prefix}tenant", tenant_quota),
        ]
        if door == _A2A:
            a2a_quota = max(1, int(quotas.a2a_tenant * quotas.plan_factors.get(caller.plan, 1) * times))
            limits.append(Limit(f"{prefix}a2a-tenant", f"{prefix}a2a-tenant", a2a_quota))
        if (skill_quota := quotas.skills.get(skill)) is not None:
            limits.append(Limit(f"{prefix}skill:{skill}", f"{prefix}skill:{skill}", skill_quota * times))
        if len(self._kept) >= _MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[who] = (str(caller.tenant), tuple(limits))
        return self._kept[who]


def _revocable(caller: Caller) -> Revocable:
    # Keys have rows of their own, with the role that whoever ends them must have.
    platform = Role.SUPER_ADMIN in caller.roles and not caller.by_key
    return Revocable(caller.credential, caller.subject, caller.issued_at, platform=platform)
