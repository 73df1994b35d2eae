"""Changing knowledge: propose on a branch, then accept or reject; deprecate and supersede what is in force.

Every change is a commit in the caller's name. The tenant's lock in PostgreSQL lets one process in at a time; commit,
branch and index are rows of the same transaction.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dragoman.context import Caller
from dragoman.errors import FieldError, InvalidInput, NotFound
from dragoman.infra.db import Scope, scope_of
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.errors import Immutable, ItemExists, WrongStatus
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.items import (
    MAIN,
    PROPOSALS,
    REJECTED,
    Author,
    Item,
    ItemType,
    Layer,
    Location,
    Signed,
    Status,
    path_of,
    slug_of,
    summary_of,
)
from dragoman.services.knowledge.ports import Consent, Ending, RuleCheck
from dragoman.services.knowledge.repositories import Repositories
from dragoman.services.knowledge.store import KnowledgeStore, Record

if TYPE_CHECKING:
    from dragoman.services.knowledge.workshop import Workshop

Clock = Callable[[], datetime]
_RULES_ON_ACTIONS = ("cedar", "approvals")
_ENDINGS = {Status.DEPRECATED: "knowledge.deprecate", Status.SUPERSEDED: "knowledge.supersede"}


def now() -> datetime:
    """To the second, as git has it."""
    return datetime.now(UTC).replace(microsecond=0)


class Curator:
    """Writes items; to be used inside a unit of work, which holds the lock to its end."""

    def __init__(
        self, store: KnowledgeStore, index: KnowledgeIndex, repositories: Repositories, *, clock: Clock = now
    ) -> None:
        # Whoever holds the approvals is built on the policies, which are knowledge.
        self.consent: Consent | None = None
        self.rules: RuleCheck | None = None
        self._store = store
        self._index = index
        self._repositories = repositories
        self._clock = clock

    async def propose(self, caller: Caller, new: m.ProposeItem) -> m.Written:
        """Write an item on a branch of its own; proposing it again writes on.

        Raises:
            ItemRefused: the document is no item, or a constraint cannot be used.
            Immutable: it would change a decision that was taken.
            ItemExists: the id belongs to an item in another place.
            InvalidInput: a rule on actions of a policy can never match.
        """
        scope = await self._enter(caller)
        item = await self._named(caller, scope, new)
        if self.rules is not None and item.location.type is ItemType.POLICY:
            await self.rules.check(caller, item.metadata)
        rows = await self._store.find(scope, item.id)
        _check_proposal(item, rows)
        for item_id in item.supersedes:
            if item_id == item.id or not await self._store.find(scope, item_id):
                raise InvalidInput.of("supersedes", f"there is no other item {item_id!r}")
            _check_step(await self._in_force(scope, item_id), Status.SUPERSEDED)
        branch = PROPOSALS + item.id
        present = next((row for row in rows if row["branch"] == branch), None)
        if present is not None and _says_the_same(present, item):
            return _written(item, branch, present["commit"])
        at = self._clock()
        item = replace(item, created_at=present["created_at"] if present else at, updated_at=at)
        commit = await self._repositories.write(scope, lambda shop: shop.propose(item, signed(caller, at, new.message)))
        await self._index.refresh(scope)
        return _written(item, branch, commit)

    async def accept(self, caller: Caller, decided: m.AcceptItem) -> m.Written:
        """Merge a proposal into the main branch; what it supersedes is superseded in the same commit.

        Raises:
            ProposalOvertaken: what it changes was changed meanwhile.
            WrongStatus: it is a draft, or what it supersedes has ended otherwise.
            DragomanError: a policy demands an approval of exactly this, and it is not there or no good.
        """
        scope = await self._enter(caller)
        rows = await self._store.find(scope, decided.id)
        row = _proposal(rows, decided.id)
        _check_step(row, Status.ACCEPTED)
        if self.consent is not None:
            await self.consent.check_proposal(caller, row["id"], row["commit"], decided.approval_id)
        ended = [await self._in_force(scope, item_id) for item_id in row["supersedes"]]
        for one in ended:
            _check_step(one, Status.SUPERSEDED)
        revision = max((one["version"] + 1 for one in rows if one["branch"] == MAIN), default=1)
        signature = signed(caller, self._clock(), decided.reason)
        item, commit = await self._repositories.write(
            scope, lambda shop: shop.accept(row, signature, revision=revision, ended=ended)
        )
        await self._index.refresh(scope)
        return _written(item, MAIN, commit)

    async def reject(self, caller: Caller, decided: m.Decide) -> m.Written:
        """Set a proposal aside, with the reason; the main branch does not change."""
        scope = await self._enter(caller)
        row = _proposal(await self._store.find(scope, decided.id), decided.id)
        _check_step(row, Status.REJECTED)
        signature = signed(caller, self._clock(), decided.reason)
        item, commit = await self._repositories.write(scope, lambda shop: shop.reject(row, signature))
        await self._index.refresh(scope)
        return _written(item, REJECTED + item.id, commit)

    async def deprecate(self, caller: Caller, decided: m.EndItem) -> m.Written:
        """End an item that nothing replaces.

        Raises:
            DragomanError: a policy demands an approval of exactly this, and it is not there or no good.
        """
        return await self._end(caller, decided, Status.DEPRECATED, None)

    async def supersede(self, caller: Caller, decided: m.SupersedeItem) -> m.Written:
        """End an item that another one replaces.

        Raises:
            WrongStatus: the other one is not accepted.
            DragomanError: a policy demands an approval of exactly this, and it is not there or no good.
        """
        if decided.by == decided.id:
            raise InvalidInput.of("by", "must be another item")
        return await self._end(caller, decided, Status.SUPERSEDED, decided.by)

    async def _end(self, caller: Caller, decided: m.EndItem, status: Status, by: str | None) -> m.Written:
        scope = await self._enter(caller)
        row = await self._in_force(scope, decided.id)
        _check_step(row, status)
        if by is not None and (other := await self._in_force(scope, by))["status"] != Status.ACCEPTED.value:
            raise WrongStatus(by, other["status"], "what replaces another")
        if self.consent is not None:
            ending = Ending(_ENDINGS[status], row["id"], row["commit"], by)
            await self.consent.check_ending(caller, ending, decided.approval_id)
        signature = signed(caller, self._clock(), decided.reason)
        item, commit = await self._repositories.write(scope, lambda shop: shop.end(row, status, signature, by=by))
        await self._index.refresh(scope)
        return _written(item, MAIN, commit)

    async def _enter(self, caller: Caller) -> Scope:
        scope = scope_of(caller)
        await self._store.lock(scope)
        await self._index.refresh(scope)
        return scope

    async def _named(self, caller: Caller, scope: Scope, new: m.ProposeItem) -> Item:
        """The item that is proposed, under an id that is free unless it was given."""
        if new.document is not None:
            document = new.document
            _check_alone(new)
            item = await self._repositories.run(caller.tenant, lambda shop: shop.read(document))
            return item.at(Status(new.status))
        item = await self._repositories.run(caller.tenant, _checking(_item_of(new)))
        number = 1
        while new.id is None and (rows := await self._store.find(scope, item.id)):
            if any(row["branch"] == PROPOSALS + item.id and _says_the_same(row, item) for row in rows):
                break
            number += 1
            item_id = f"{slug_of(item.location.type, item.title)}-{number}"
            item = replace(item, id=item_id, path=path_of(item.location, item_id))
        return item

    async def _in_force(self, scope: Scope, item_id: str) -> Record:
        rows = await self._store.find(scope, item_id)
        found = next((row for row in rows if row["branch"] == MAIN), None)
        if found is None:
            raise NotFound("item", item_id)
        return found


def _checking(item: Item) -> "Callable[[Workshop], Item]":
    return lambda shop: shop.check(item)


def _item_of(new: m.ProposeItem) -> Item:
    missing = [name for name in ("type", "title", "content") if getattr(new, name) is None]
    if missing or new.type is None or new.title is None or new.content is None:
        raise InvalidInput(
            [FieldError(field=name, message="is needed, unless a document is given") for name in missing]
        )
    if (new.layer is Layer.COMPANY) != (new.layer_id is None):
        raise InvalidInput.of(
            "layer_id", "is not for the company" if new.layer_id else f"is needed by the layer {new.layer.value}"
        )
    if new.type is ItemType.POLICY and not new.constraints and not any(map(new.metadata.get, _RULES_ON_ACTIONS)):
        told = "a policy must have at least one, or rules on actions in metadata.cedar or metadata.approvals"
        raise InvalidInput.of("constraints", told)
    location = Location(new.type, new.layer, new.layer_id)
    item_id = new.id or slug_of(new.type, new.title)
    return Item(
        id=item_id,
        location=location,
        title=new.title,
        status=Status(new.status),
        content=new.content.strip(),
        path=path_of(location, item_id),
        summary=" ".join((new.summary or "").split()) or summary_of(new.content),
        severity=new.severity,
        constraints=tuple(new.constraints),
        tags=tuple(new.tags),
        metadata=new.metadata,
        supersedes=tuple(new.supersedes),
        links=tuple(new.links),
    )


def _check_alone(new: m.ProposeItem) -> None:
    beside = sorted(new.model_fields_set - {"document", "status", "message"})
    if beside:
        raise InvalidInput([FieldError(field=name, message="stands in the document") for name in beside])


def _check_proposal(item: Item, rows: list[Record]) -> None:
    """Whether an item may be proposed beside what there is of it already."""
    for row in rows:
        if row["path"] != item.path:
            raise ItemExists(item.id)
        status = Status(row["status"])
        if row["branch"] != MAIN or status in (Status.DRAFT, Status.PROPOSED):
            continue
        if row["type"] == ItemType.ADR.value:
            raise Immutable(item.id, status.value)
        if status is not Status.ACCEPTED:
            raise WrongStatus(item.id, status.value, "proposed again")


def _check_step(row: Record, status: Status) -> None:
    if not Status(row["status"]).may_become(status) or row["status"] == status.value:
        raise WrongStatus(row["id"], row["status"], status.value)


def _proposal(rows: list[Record], item_id: str) -> Record:
    found = next((row for row in rows if row["branch"] == PROPOSALS + item_id), None)
    if found is None and rows:
        raise WrongStatus(item_id, rows[0]["status"], "decided: nothing is proposed")
    if found is None:
        raise NotFound("item", item_id)
    return found


def _says_the_same(row: Record, item: Item) -> bool:
    location = item.location
    same = row["content_hash"] == item.content_hash and row["status"] == item.status.value
    return same and (row["type"], row["layer"], row["layer_id"], row["metadata"], tuple(row["tags"])) == (
        location.type.value, location.layer.value, location.layer_id, item.metadata, item.tags
    )  # fmt: skip


def signed(caller: Caller, at: datetime, reason: str | None) -> Signed:
    """The caller as git has it, with a reason."""
    email = caller.subject if "@" in caller.subject else f"{caller.subject}@{caller.tenant_slug}"
    return Signed(Author(caller.subject, email), at, reason)


def _written(item: Item, branch: str, commit: str) -> m.Written:
    return m.Written(id=item.id, status=item.status, branch=branch, path=item.path, commit=commit)
