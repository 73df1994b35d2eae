"""Policies as the knowledge holds them: the accepted items of type policy, at one commit."""

from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.governance.actions import complaint_about
from dragoman.services.governance.errors import UnknownRevision
from dragoman.services.governance.policies import Merge, Mode, Policy
from dragoman.services.governance.ports import PolicyBook
from dragoman.services.knowledge.items import ItemType, Status, locate
from dragoman.services.knowledge.repositories import Repositories

if TYPE_CHECKING:
    from dragoman.services.knowledge.items import Item
    from dragoman.services.knowledge.workshop import Workshop

# The revision of a repository in which nothing was written yet.
EMPTY: Final = "empty"
_MOST_KEPT = 100
E = TypeVar("E", Mode, Merge)


class PolicyLibrary:
    """Reads policies. What a commit says never changes, so it is read once."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._kept: dict[tuple[UUID, str], PolicyBook] = {}

    async def read(self, caller: Caller, revision: str | None = None) -> PolicyBook:
        """The policies at a revision; the newest when none is named.

        Raises:
            UnknownRevision: there is no such revision.
        """
        # Who has never written anything does not pay for opening a repository.
        if revision is None and not self._repositories.path(caller.tenant).exists():
            return PolicyBook(EMPTY, ())
        commit = await self._repositories.run(caller.tenant, lambda shop: _find_commit(shop, revision))
        if commit is None:
            if revision is not None:
                raise UnknownRevision(revision)
            return PolicyBook(EMPTY, ())
        known = self._kept.get((caller.tenant, commit))
        if known is None:
            known = await self._repositories.run(caller.tenant, lambda shop: _read(shop, commit))
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[caller.tenant, commit] = known
        return known


def _find_commit(shop: "Workshop", revision: str | None) -> str | None:
    return shop.repository.find_head() if revision is None else shop.repository.resolve(revision)


def _read(shop: "Workshop", commit: str) -> PolicyBook:
    from dragoman.services.knowledge.documents import read_item  # noqa: PLC0415 - its libraries are an extra
    from dragoman.services.knowledge.errors import ItemRefused  # noqa: PLC0415

    policies: list[Policy] = []
    problems: list[tuple[str, str]] = []
    for path, blob in shop.items(commit).items():
        where = locate(path)
        if where is None or where.type is not ItemType.POLICY:
            continue
        try:
            item = read_item(shop.repository.text(blob), path)
        except ItemRefused as refused:
            problems.append((path, refused.message))
            continue
        if item.status is Status.ACCEPTED:
            policy, complaints = _policy(item)
            policies.append(policy)
            problems += [(item.id, complaint) for complaint in complaints]
    return PolicyBook(commit, tuple(policies), tuple(problems))


def _policy(item: "Item") -> tuple[Policy, list[str]]:
    """The policy of an item. What it says wrongly is complained about and read in the stricter way."""
    said, complaints = item.metadata, list[str]()
    cedar = str(said.get("cedar") or "")
    if cedar and (complaint := complaint_about(cedar)) is not None:
        complaints.append(complaint)
        cedar = '@id("unreadable")\nforbid (principal, action, resource);'
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
    )
    return policy, complaints


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
