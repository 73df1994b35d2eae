"""Policies as the knowledge holds them: the accepted items of type policy, at one commit."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.governance.actions import complaint_about
from dragoman.services.governance.approval_rules import STRICTEST, read_rule
from dragoman.services.governance.errors import UnknownRevision
from dragoman.services.governance.policies import Merge, Mode, Policy
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.governance.rule_checks import find_mistakes
from dragoman.services.knowledge.constraints.models import Severity
from dragoman.services.knowledge.items import Layer, Status, is_policy, locate
from dragoman.services.knowledge.repositories import Repositories

if TYPE_CHECKING:
    from dragoman.services.knowledge.items import Item
    from dragoman.services.knowledge.workshop import Workshop

# The revision of a repository in which nothing was written yet.
EMPTY: Final = "empty"
_MOST_KEPT = 100
_VERSION = 16
# Thousands of tasks a second need not look at a row each; no request is as fast as to see the difference.
_UNSEEN_S: Final = 0.002
_NONE: Final = PolicyBook(EMPTY, ())
E = TypeVar("E", Mode, Merge)


@dataclass(frozen=True, slots=True)
class _Seen:
    book: PolicyBook
    good_until: float


class PolicyLibrary:
    """Reads policies. What a commit says never changes, so it is read once."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._kept: dict[tuple[UUID, str], PolicyBook] = {}
        self._newest: dict[UUID, _Seen] = {}

    async def read(self, caller: Caller, revision: str | None = None) -> PolicyBook:
        """The policies at a revision; the newest when none is named.

        Raises:
            UnknownRevision: there is no such revision.
        """
        if revision is None:
            return await self.in_force(caller.tenant)
        commit = await self._repositories.run(caller.tenant, lambda shop: shop.repository.resolve(revision))
        if commit is None:
            raise UnknownRevision(revision)
        return await self._at(caller.tenant, commit)

    async def in_force(self, tenant: UUID) -> PolicyBook:
        """The newest policies of a tenant; while nothing changes, it costs no more than a look at a row.

        Raises:
            UpstreamUnavailable: it cannot be known here now what they say.
        """
        seen, at = self._newest.get(tenant), monotonic()
        if seen is not None and at < seen.good_until:
            return seen.book
        commit = await self._repositories.head(tenant)
        # The row was looked at after the clock: what is written meanwhile is read again, and never missed.
        book = await self._at(tenant, commit) if commit is not None else _NONE
        self._newest[tenant] = _Seen(book, at + _UNSEEN_S)
        return book

    async def _at(self, tenant: UUID, commit: str) -> PolicyBook:
        known = self._kept.get((tenant, commit))
        if known is None:
            known = await self._repositories.run(tenant, lambda shop: _read(shop, commit))
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[tenant, commit] = known
        return known


def _read(shop: "Workshop", commit: str) -> PolicyBook:
    from dragoman.services.knowledge.documents import may_be_accepted, read_item  # noqa: PLC0415 - its libraries are an extra
    from dragoman.services.knowledge.errors import ItemRefused  # noqa: PLC0415

    policies: list[Policy] = []
    problems: list[tuple[str, str]] = []
    for path, blob in shop.items(commit).items():
        if not is_policy(path):
            continue
        text: str | None = None
        try:
            text = shop.repository.text(blob, path)
            item = read_item(text, path)
        except ItemRefused as refused:
            problems.append((path, refused.message))
            if text is None or may_be_accepted(text, path):
                policies.append(_unreadable(path, blob, refused.message))
            continue
        if item.status is Status.ACCEPTED:
            policy, complaints = _policy(item, blob)
            policies.append(policy)
            problems += [(item.id, complaint) for complaint in complaints]
    return PolicyBook(commit, tuple(policies), tuple(problems))


def _policy(item: "Item", blob: str) -> tuple[Policy, list[str]]:
    """The policy of an item. What it says wrongly is complained about and read in the stricter way."""
    said, complaints = item.metadata, list[str]()
    cedar = str(said.get("cedar") or "")
    if cedar and (complaint := complaint_about(cedar)) is not None:
        complaints.append(complaint)
        cedar = '@id("unreadable")\nforbid (principal, action, resource);'
    elif cedar:
        complaints += [f"cedar {mistake}" for mistake in find_mistakes(cedar, lambda _: None)]
    approvals = None
    if "approvals" in said:
        approvals, wrong = read_rule(said["approvals"])
        complaints += wrong
    policy = Policy(
        id=item.id,
        title=item.title,
        layer=item.location.layer.value,
        layer_id=item.location.layer_id,
        constraints=item.constraints,
        severity=item.severity,
        mode=_word(said, "mode", Mode, Mode.MANDATORY, complaints) or Mode.OPTIONAL,
        merge=_word(said, "merge", Merge, Merge.MERGE, complaints) or Merge.OVERRIDE,
        extends=str(said["extends"]) if said.get("extends") else None,
        cedar=cedar,
        approvals=approvals,
        version=blob[:_VERSION],
        path=item.path,
    )
    return policy, complaints


def _unreadable(path: str, blob: str, reason: str) -> Policy:
    """The policy of a document that might say anything: it forbids all actions, and demands consent to all changes."""
    where = locate(path)
    return Policy(
        id=path,
        title=path,
        layer=where.layer.value if where else Layer.COMPANY.value,
        layer_id=where.layer_id if where else None,
        severity=Severity.BLOCK,
        mode=Mode.MANDATORY,
        approvals=STRICTEST,
        version=blob[:_VERSION],
        unreadable=reason,
        path=path,
    )


def _word(said: dict[str, Any], name: str, kind: type[E], strictest: E, complaints: list[str]) -> E | None:
    given = said.get(name)
    if given is None:
        return None
    try:
        return kind(str(given).lower())
    except ValueError:
        known = ", ".join(member.value for member in kind)
        complaints.append(f"{name} is {given!r} and must be one of {known}; it is taken as {strictest.value}")
        return strictest
