"""Rules of approvals: what is asked for, who may decide it, and what becomes of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

import orjson

from dragoman.context import Caller, PrincipalType, Role
from dragoman.errors import Forbidden, InvalidInput, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman.operations import Page, page
from dragoman.services.approvals import models as m
from dragoman.services.approvals.errors import (
    ApprovalClosed,
    ApprovalExpired,
    ApprovalMismatch,
    ApprovalReserved,
    ApprovalStale,
    AuthorApproval,
    PolicyRefused,
    SelfApproval,
    stale,
)
from dragoman.services.approvals.outcomes import Outcomes
from dragoman.services.approvals.ports import Approvals, Authors, Makers, Spoils, Units
from dragoman.services.approvals.records import NewApproval, NewDecision, Record, Wanted, programs_that_approved
from dragoman.services.approvals.requirements import ACCEPTANCE, Requirement, moved, requirement, versions_of
from dragoman.services.approvals.targets import Targets
from dragoman.services.governance.ports import Policies
from dragoman.services.tasks.actions.actors import Grants
from dragoman.services.tasks.actions.envelope import digest_of_action

_LARGEST_INPUT: Final = 256 * 1024
_ASKED: Final = {
    "approval_id", "action", "resource", "matter_id", "input", "digest", "requested_by", "actor", "on_behalf_of",
    "parties", "claims", "grants", "reason", "policies", "quorum", "roles", "people_only", "expires_at", "facts",
    "shows",
}  # fmt: skip


class ApprovalService:
    """Keeps approvals. Whoever decides is told of by their credentials alone."""

    def __init__(  # noqa: PLR0913 - what it asks of others, each by its name
        self,
        store: Approvals,
        db: Units,
        policies: Policies,
        *,
        targets: Targets,
        spoil: Spoils,
        outcomes: Outcomes,
        authors: Authors,
        grants: Grants,
        makers: Makers,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._db = db
        self._policies = policies
        self._targets = targets
        self._spoil = spoil
        self._outcomes = outcomes
        self._authors = authors
        self._grants = grants
        self._makers = makers
        self._new_id = new_id

    async def request(self, caller: Caller, given: m.RequestApproval) -> m.ApprovalView:
        """Ask for consent, under the policies in force now.

        Raises:
            PolicyStale: a policy that is referred to is not in force, or in another version.
            PolicyRefused: nobody could decide.
            InvalidInput: the input is not what the action takes, or too large to be shown to anybody.
            NotFound: the resource does not exist.
            ResourceMoved: the resource is not what the request names.
        """
        if len(orjson.dumps(given.input)) > _LARGEST_INPUT:
            raise InvalidInput.of("input", f"must not exceed {_LARGEST_INPUT} bytes")
        book = await self._policies.read(caller)
        bound = await self._targets.bind(caller, given.action, given.resource, given.input)
        needed = requirement(book, given.action, sensitive=bound.sensitive, approvers=bound.approvers)
        versions = {**versions_of(book, given.policy_refs), **needed.policies}
        roles = _roles(given, needed)
        grants = await self._grants_of(caller, given)
        parties = {caller.subject, *grants, *await self._authors_of(caller, given)}
        new = NewApproval(
            id=self._new_id(),
            digest=digest_of_action(given.action, bound.resource, given.matter_id, given.input, bound.facts),
            action=given.action,
            resource=bound.resource.model_dump(mode="json", exclude_none=True),
            matter_id=given.matter_id,
            input=given.input,
            policies=[{"id": name, "version": version} for name, version in sorted(versions.items())],
            quorum=max(needed.quorum, given.quorum or 1),
            roles=roles,
            people_only=needed.people_only,
            requested_by=caller.subject,
            parties=sorted(parties),
            reason=given.reason,
            valid_for=min(needed.valid_for, timedelta(hours=given.valid_hours or m.MOST_HOURS)),
            facts=bound.facts,
            actor=given.actor,
            on_behalf_of=given.on_behalf_of,
            grants=grants,
        )
        await self._store.add(scope_of(caller), new)
        return await self.show(caller, m.ApprovalRef(approval_id=new.id))

    async def list(self, caller: Caller, wanted: m.ListApprovals) -> Page[m.ApprovalSummary]:
        """Newest first."""
        rows = await self._store.list_page(
            scope_of(caller),
            Wanted(
                limit=wanted.limit + 1,
                before=wanted.cursor,
                state=wanted.state,
                action=wanted.action,
                matter_id=wanted.matter_id,
                requested_by=caller.subject if wanted.mine else None,
                decider=caller.subject if wanted.decidable else None,
                roles=sorted(deciding_roles(caller)),
                is_person=caller.is_person,
            ),
        )
        return page([m.ApprovalSummary.model_validate({**row, "claims": _claims(row)}) for row in rows], wanted.limit)

    async def show(self, caller: Caller, ref: m.ApprovalRef) -> m.ApprovalView:
        """What exactly is to be approved, and what was decided."""
        row = await self._get(scope_of(caller), ref.approval_id)
        return m.ApprovalView.model_validate(await shown(caller, row, self._store, self._targets))

    async def check_target(self, caller: Caller, given: m.DecideApproval) -> m.DecideApproval:
        """Make an open approval stale whose resource has moved, before anyone decides it."""
        row = await self._get(scope_of(caller), given.approval_id)
        if row["state"] == m.ApprovalState.PENDING and (move := await self._targets.find_move(caller, row)):
            await self._spoil(caller.tenant, [given.approval_id], move)
        return given

    async def ask(self, caller: Caller, row: Record) -> Record:
        """Return what a decider must see, as the data of a message that asks for a decision."""
        view = m.ApprovalView.model_validate(await shown(caller, row, self._store, self._targets))
        return view.model_dump(mode="json", include=_ASKED, exclude_none=True)

    async def decide(self, caller: Caller, given: m.DecideApproval) -> m.ApprovalView:
        """Say yes or no, once. Those who decide at the same time are taken one after the other.

        Raises:
            ApprovalClosed: there is nothing left to decide, or the caller has decided.
            ApprovalExpired, ApprovalStale: it came too late.
            SelfApproval: the caller, or who made its key, is a party and approves; a party may deny.
            AuthorApproval: the caller approves knowledge of which they wrote a part.
            ApprovalReserved: it is for people, or for other roles.
            ApprovalMismatch: the caller saw something else.
            InvalidInput: a program did not say what it saw.
        """
        scope = scope_of(caller)
        async with self._db.unit(scope):
            row = await self._get(scope, given.approval_id, lock=True)
            await self._check_open(caller, row, among=(m.ApprovalState.PENDING,))
            if given.decision is m.Verdict.APPROVE:
                await self._check_author(caller, row)
                await self._check_acts_for_none(caller, row)
            role = _deciding_role(caller, row, given.decision)
            if any(one["by"] == caller.subject for one in row["decisions"]):
                raise ApprovalClosed(given.approval_id, row["state"], reason="YOU_DECIDED")
            _check_seen(caller, given, row)
            if given.decision is m.Verdict.APPROVE:
                await self._check_keys(caller, row)
            state = _state_after(given.decision, row)
            decision = NewDecision(caller.subject, _proved(caller), role, given.decision, given.reason, given.digest)
            await self._store.decide(scope, given.approval_id, decision, state)
            if state is not None:
                await self._announce(caller, given.approval_id)
            return await self.show(caller, given)

    async def withdraw(self, caller: Caller, given: m.WithdrawApproval) -> m.ApprovalView:
        """Take a request back, as long as nothing has used it.

        Raises:
            Forbidden: the caller neither asked for it nor runs the tenant.
            ApprovalClosed: it has ended already.
        """
        scope = scope_of(caller)
        async with self._db.unit(scope):
            row = await self._get(scope, given.approval_id, lock=True)
            if caller.subject != row["requested_by"] and Role.ORG_ADMIN not in deciding_roles(caller):
                raise Forbidden("only who asked for it, or an org_admin, takes it back", reason="NOT_THE_REQUESTER")
            await self._check_open(caller, row, among=(m.ApprovalState.PENDING, m.ApprovalState.APPROVED))
            await self._store.withdraw(scope, given.approval_id, given.reason)
            await self._announce(caller, given.approval_id)
            return await self.show(caller, given)

    async def _get(self, scope: Scope, approval_id: UUID, *, lock: bool = False) -> Record:
        row = await self._store.find(scope, approval_id, lock=lock)
        if row is None:
            raise NotFound("approval", approval_id)
        return row

    async def _check_open(self, caller: Caller, row: Record, *, among: tuple[m.ApprovalState, ...]) -> None:
        approval_id, state = row["approval_id"], m.ApprovalState(row["state"])
        if state is m.ApprovalState.EXPIRED:
            raise ApprovalExpired(approval_id, row["expires_at"].isoformat())
        if state is m.ApprovalState.STALE:
            raise stale(approval_id, row["closed_because"])
        if state not in among:
            raise ApprovalClosed(approval_id, state)
        if m.ApprovalState.APPROVED in among:
            return
        book = await self._policies.read(caller)
        if gone := moved(book, row["action"], {one["id"]: one["version"] for one in row["policies"]}):
            raise ApprovalStale(approval_id, reason="POLICY_MOVED", policies=gone)

    async def _grants_of(self, caller: Caller, given: m.RequestApproval) -> dict[str, str]:
        """Return those of the stated names that the caller may act for, each with the grant."""
        names = {name for name in (given.actor, given.on_behalf_of) if name and name != caller.subject}
        found = {name: await self._grants.find(caller, name, given.action) for name in sorted(names)}
        return {name: str(grant) for name, grant in found.items() if grant is not None}

    async def _check_acts_for_none(self, caller: Caller, row: Record) -> None:
        """Refuse a program that acts for a party: it would approve in the name of who asked."""
        for party in () if caller.is_person else row["parties"]:
            if await self._grants.find(caller, party, row["action"]) is not None:
                raise SelfApproval(row["approval_id"], party)

    async def _check_keys(self, caller: Caller, row: Record) -> None:
        """Count the approval of a key as that of who made it: with keys nobody approves twice, or what they ask for."""
        scope, approval_id, before = scope_of(caller), row["approval_id"], programs_that_approved(row)
        behind = frozenset[str]() if caller.is_person else await self._makers.find_makers(scope, [caller.subject])
        if own := sorted(behind.intersection(row["parties"])):
            raise SelfApproval(approval_id, own[0])
        counted = {one["by"] for one in row["decisions"]}
        counted |= await self._makers.find_makers(scope, before) if before else set()
        if counted & {caller.subject, *behind}:
            raise ApprovalClosed(approval_id, row["state"], reason="YOU_DECIDED")

    async def _authors_of(self, caller: Caller, given: m.RequestApproval) -> frozenset[str]:
        if given.action != ACCEPTANCE or given.resource.version is None:
            return frozenset()
        return await self._authors.find(caller.tenant, given.resource.version)

    async def _check_author(self, caller: Caller, row: Record) -> None:
        commit: str | None = row["resource"].get("version")
        if row["action"] != ACCEPTANCE or commit is None:
            return
        if await self._authors.among(caller.tenant, commit, [caller.subject]):
            raise AuthorApproval(row["approval_id"], caller.subject)

    async def _announce(self, caller: Caller, approval_id: UUID) -> None:
        await self._db.after_commit(lambda: self._outcomes.announce(caller.tenant, approval_id))


def deciding_roles(caller: Caller) -> frozenset[Role]:
    """The roles in which a caller decides: who runs the installation may stand in for a tenant's administrator."""
    return caller.roles | {Role.ORG_ADMIN} if caller.platform else caller.roles


def _roles(given: m.RequestApproval, needed: Requirement) -> list[str]:
    roles = needed.roles & set(given.roles) if given.roles is not None else needed.roles
    if not roles:
        policies = [{"id": name, "version": version} for name, version in needed.policies.items()]
        raise PolicyRefused(given.action, policies, reason="NOBODY_MAY_DECIDE")
    return sorted(roles)


async def shown(caller: Caller, row: Record, store: Approvals, targets: Targets) -> Record:
    """Return an approval as deciders see it: with the resource as it was bound, and the names nobody has checked."""
    since = await store.approved_version(scope_of(caller), row["resource"], row["approval_id"])
    return {**row, "claims": _claims(row), "shows": await targets.show(caller, row, since=since)}


def _claims(row: Record) -> list[str]:
    """Return the names of a request that nobody has checked."""
    checked = {row["requested_by"], *row["grants"]}
    return [row[name] for name in ("actor", "on_behalf_of") if row[name] and row[name] not in checked]


def _deciding_role(caller: Caller, row: Record, decision: m.Verdict) -> str:
    approval_id = row["approval_id"]
    if decision is m.Verdict.APPROVE and caller.subject in row["parties"]:
        raise SelfApproval(approval_id, caller.subject)
    if row["people_only"] and not caller.is_person:
        raise ApprovalReserved(approval_id, reason="PEOPLE_ONLY", roles=row["roles"])
    held = sorted(deciding_roles(caller) & {Role(name) for name in row["roles"]})
    if not held:
        raise ApprovalReserved(approval_id, reason="ROLE", roles=row["roles"])
    return held[0]


def _proved(caller: Caller) -> PrincipalType:
    """Return what the credentials prove of a decider: a key is held by a program, whatever its maker called it."""
    return PrincipalType.SERVICE if caller.type is PrincipalType.USER and not caller.is_person else caller.type


def _check_seen(caller: Caller, given: m.DecideApproval, row: Record) -> None:
    if given.digest is None and not caller.is_person:
        raise InvalidInput.of("digest", "must be stated by a program: that of what it saw")
    if given.digest is not None and given.digest != row["digest"]:
        raise ApprovalMismatch(given.approval_id, approved=row["digest"], asked=given.digest)


def _state_after(decision: m.Verdict, row: Record) -> str | None:
    if decision is m.Verdict.DENY:
        return m.ApprovalState.DENIED
    return m.ApprovalState.APPROVED if row["approved"] + 1 >= row["quorum"] else None
