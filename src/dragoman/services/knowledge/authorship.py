"""Who wrote what is proposed: the authors of its commits, since it left what was accepted."""

from collections.abc import Iterable
from uuid import UUID

from dragoman.services.knowledge.items import name_in_git
from dragoman.services.knowledge.repositories import Repositories


class Authorship:
    """Asks the repository. A commit that is not in it was written by nobody."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories

    async def find(self, tenant: UUID, commit: str) -> frozenset[str]:
        """Everybody who wrote a part of the proposal that ends in this commit, by their names in git."""
        return await self._repositories.run(tenant, lambda shop: shop.authors(commit))

    async def among(self, tenant: UUID, commit: str, subjects: Iterable[str]) -> list[str]:
        """Those of the subjects who did."""
        authors = await self.find(tenant, commit)
        return sorted(subject for subject in subjects if name_in_git(subject) in authors)
