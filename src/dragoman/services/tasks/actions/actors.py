"""Who acts, and for whom: held against the credentials and, where another is named, against a grant."""

from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from dragoman.context import Caller, PrincipalType, Role
from dragoman.services.audit.models import Detail
from dragoman.services.tasks.actions.envelope import ActorType, Envelope
from dragoman.services.tasks.actions.errors import ActorMismatch, GrantEnded

# An actor may state less than its credentials prove, never more.
_TRUST: Final = {ActorType.AGENT: 0, ActorType.SERVICE: 1, ActorType.HUMAN: 2}
_KEPT: Final = "on_behalf_of"


class Grants(Protocol):
    """Knows who may act for whom."""

    async def find(self, caller: Caller, on_behalf_of: str, action: str) -> UUID | None:
        """Return the grant by which the caller may do this for a person; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Acting:
    """For whom somebody acts. Without a grant the name is a claim: it is shown as one, and excludes nobody."""

    on_behalf_of: str
    grant: str | None = None

    @property
    def claims(self) -> list[str]:
        """Return the name if nothing proves it."""
        return [] if self.grant is not None else [self.on_behalf_of]

    @property
    def parties(self) -> frozenset[str]:
        """Return those who must not approve what is done for them."""
        return frozenset({self.on_behalf_of}) if self.grant is not None else frozenset()

    def kept(self) -> dict[str, Any]:
        """Return what the governance of a task keeps of it."""
        found: dict[str, Any] = {"subject": self.on_behalf_of, "verified": self.grant is not None}
        return {_KEPT: found | ({"grant": self.grant} if self.grant is not None else {})}

    def shown(self) -> dict[str, Any]:
        """Return what a view shows of it."""
        return {_KEPT: self.on_behalf_of, "claims": self.claims}

    def details(self) -> dict[str, Detail]:
        """Return what an audit record says of it."""
        checked: dict[str, Detail] = {"grant": self.grant} if self.grant is not None else {"claims": [_KEPT]}
        return {_KEPT: self.on_behalf_of, **checked}


def acting_in(governance: dict[str, Any], envelope: dict[str, Any]) -> Acting | None:
    """Return for whom a task that is kept with these is done."""
    if (kept := governance.get(_KEPT)) is not None:
        return Acting(kept["subject"], kept.get("grant"))
    # Accepted before grants were known, or not judged yet.
    name = envelope["actor"].get(_KEPT)
    return Acting(name) if name else None


class Actors:
    """Checks the actors of envelopes."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants

    async def check(self, caller: Caller, envelope: Envelope) -> tuple[Envelope, Acting | None]:
        """Return the envelope, and for whom its actor acts.

        An envelope whose actor is one that the caller may act for becomes one of the caller on behalf of that actor.

        Raises:
            ActorMismatch: actor and credentials do not agree.
        """
        actor = envelope.actor
        if actor.tenant_id is not None and actor.tenant_id not in (str(caller.tenant), caller.tenant_slug):
            raise ActorMismatch("the actor's tenant is not that of the credentials")
        if actor.id != caller.subject:
            return await self._as_another(caller, envelope)
        _check_type(caller, actor.type)
        if actor.on_behalf_of is None or actor.on_behalf_of == caller.subject:
            return envelope, None
        acting = await self._acting(caller, actor.on_behalf_of, envelope.action)
        if acting.grant is None and caller.is_person and not _may_stand_in(caller):
            raise ActorMismatch(
                f"no grant lets {caller.subject} act for {actor.on_behalf_of}: {actor.on_behalf_of} or an org_admin "
                "makes one with grant_create"
            )
        return envelope, acting

    async def check_again(self, caller: Caller, envelope: Envelope, governance: dict[str, Any]) -> Acting | None:
        """Return for whom a task is done, at the moment when it is done; `governance` is what was kept with it.

        Raises:
            GrantEnded: it was accepted under a grant that no longer holds.
        """
        name = envelope.actor.on_behalf_of
        if name is None or name == envelope.actor.id:
            return None
        acting = await self._acting(caller, name, envelope.action)
        if acting.grant is None and governance.get(_KEPT, {}).get("grant") is not None:
            raise GrantEnded(name)
        return acting

    async def _as_another(self, caller: Caller, envelope: Envelope) -> tuple[Envelope, Acting]:
        actor = envelope.actor
        grant = await self._grants.find(caller, actor.id, envelope.action)
        if grant is None or actor.on_behalf_of not in (None, actor.id):
            raise ActorMismatch(
                f"the actor is {actor.id!r}, and the credentials are those of {caller.subject!r}, which no grant lets "
                "act for it"
            )
        own = actor.model_copy(update={"id": caller.subject, "type": _proved(caller), "on_behalf_of": actor.id})
        return envelope.model_copy(update={"actor": own}), Acting(actor.id, str(grant))

    async def _acting(self, caller: Caller, name: str, action: str) -> Acting:
        grant = await self._grants.find(caller, name, action)
        return Acting(name, str(grant) if grant is not None else None)


def _check_type(caller: Caller, stated: ActorType) -> None:
    proved = _proved(caller)
    if _TRUST[stated] > _TRUST[proved]:
        raise ActorMismatch(
            f"actor.type is {stated.value}, but the credentials prove no more than {proved.value}: set actor.type"
        )


def _proved(caller: Caller) -> ActorType:
    """Return what the credentials prove; a principal of unknown kind is not known to be a person."""
    if caller.type is PrincipalType.AGENT:
        return ActorType.AGENT
    return ActorType.HUMAN if caller.is_person else ActorType.SERVICE


def _may_stand_in(caller: Caller) -> bool:
    return bool(caller.roles & {Role.ORG_ADMIN, Role.SUPER_ADMIN})
