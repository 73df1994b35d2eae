"""What is done with a repository in a thread: documents read, written, merged. The libraries come with this module."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pygit2 import GitError

from dragoman.services.knowledge.documents import read_item, write_item
from dragoman.services.knowledge.errors import ItemRefused, ProposalOvertaken
from dragoman.services.knowledge.items import (
    MAIN,
    PROPOSALS,
    REJECTED,
    Item,
    Signed,
    Status,
    locate,
    path_of,
)
from dragoman.services.knowledge.packs import install, packed
from dragoman.services.knowledge.records import records_of
from dragoman.services.knowledge.remotes import Merge, merge
from dragoman.services.knowledge.repository import Repository
from dragoman.services.knowledge.store_git import Pack, Snapshot

Record = dict[str, Any]
# What work with a repository raises when the directory cannot be used, or lacks what there should be.
DAMAGE = (OSError, LookupError, GitError)


class Workshop:
    """One use of one repository, in one thread."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        self.repository = Repository.open(path, snapshot.refs)
        install(path, snapshot.packs)
        self.check_readable()

    def check_readable(self) -> None:
        """Hold what is here against the branches.

        Raises:
            KeyError: a commit that a branch is at is not here.
        """
        self.repository.check_complete()

    def packed(self, snapshot: Snapshot) -> tuple[Pack | None, list[str]]:
        """What was written since the snapshot, as a pack for the rows, and the packs that it takes in."""
        tips = [new for _, new in self.repository.moves.values() if new is not None]
        return packed(self.repository.git, tips, snapshot.refs.values(), snapshot.packs)

    def adopted(self) -> tuple[Pack | None, list[str]]:
        """Take over the branches that the directory itself has."""
        for branch, commit in self.repository.stored_refs().items():
            self.repository.move(branch, commit, expected=None)
        return self.packed(Snapshot({}, ()))

    def items(self, commit: str) -> dict[str, str]:
        """The documents at a commit that stand where items do, with the ids of their contents."""
        return _items_among(self.repository.listing(commit))

    def proposed(self, commit: str) -> dict[str, str]:
        """The documents that a proposal changes."""
        head = self.repository.find_head()
        fork = self.repository.fork_point(head, commit) if head else None
        return _items_among(self.repository.listing(commit, fork))

    def authors(self, revision: str) -> frozenset[str]:
        """Who wrote what a proposal changes; nobody where there is no such commit."""
        commit = self.repository.resolve(revision)
        return self.repository.authors(commit, beyond=self.repository.find_head()) if commit else frozenset()

    def records(
        self, commit: str, batch: Mapping[str, str], before: Mapping[str, Record]
    ) -> tuple[list[Record], list[Record]]:
        """What the index shows of these documents, and what is wrong with them."""
        return records_of(self.repository, commit, batch, before)

    def check(self, item: Item) -> Item:
        """The item as its document will be read.

        Raises:
            ItemRefused: it would not be one.
        """
        return read_item(write_item(item), item.path)

    def read(self, document: str) -> Item:
        """The item of a document that stands nowhere yet; it goes where its front matter says.

        Raises:
            ItemRefused: it is none.
        """
        item = read_item(document, "document")
        if item.id == "document":
            raise ItemRefused("id", "is needed", file="document", line=1)
        return replace(item, path=path_of(item.location, item.id))

    def propose(self, item: Item, signed: Signed) -> str:
        """Write it on its branch; the commit."""
        branch = PROPOSALS + item.id
        tip = self.repository.find_head(branch)
        return self._commit(branch, [item], signed, "Propose", on=tip or self.repository.find_head(), expected=tip)

    def accept(self, row: Record, signed: Signed, *, revision: int, ended: Sequence[Record]) -> tuple[Item, str]:
        """Merge a proposal into the main branch, and end what it supersedes.

        Raises:
            ProposalOvertaken: what it changes was changed since.
        """
        head = self.repository.find_head()
        tip = self.repository.find_head(row["branch"]) or row["commit"]
        self._check_not_overtaken(row, tip, head)
        item = self._item(tip, row["path"]).at(Status.ACCEPTED, updated_at=signed.at, version=revision)
        others = [
            self._item(str(head), one["path"]).at(Status.SUPERSEDED, superseded_by=item.id, updated_at=signed.at)
            for one in ended
        ]
        made = self._commit(MAIN, [item, *others], signed, "Accept", on=head, expected=head, merged=[tip])
        self.repository.drop(row["branch"])
        return item, made

    def reject(self, row: Record, signed: Signed) -> tuple[Item, str]:
        """Set a proposal aside."""
        tip = self.repository.find_head(row["branch"]) or row["commit"]
        item = self._item(tip, row["path"])
        because = {"rejected_because": signed.reason} if signed.reason else {}
        item = item.at(Status.REJECTED, updated_at=signed.at, metadata={**item.metadata, **because})
        aside = REJECTED + item.id
        made = self._commit(aside, [item], signed, "Reject", on=tip, expected=self.repository.find_head(aside))
        self.repository.drop(row["branch"])
        return item, made

    def end(self, row: Record, status: Status, signed: Signed, *, by: str | None) -> tuple[Item, str]:
        """Take an item out of force."""
        head = self.repository.find_head()
        item = self._item(str(head), row["path"]).at(status, updated_at=signed.at, superseded_by=by)
        verb = {Status.DEPRECATED: "Deprecate", Status.SUPERSEDED: "Supersede"}[status]
        return item, self._commit(MAIN, [item], signed, verb, on=head, expected=head)

    def merge(self, theirs: str, signed: Signed, *, remote: str, on_conflict: str) -> Merge:
        """Merge what was fetched; see `remotes.merge`."""
        return merge(self.repository, theirs, signed, remote=remote, on_conflict=on_conflict)

    def _commit(
        self,
        branch: str,
        items: Sequence[Item],
        signed: Signed,
        verb: str,
        *,
        on: str | None,
        expected: str | None,
        merged: Sequence[str] = (),
    ) -> str:
        return self.repository.commit(
            branch,
            {item.path: write_item(item) for item in items},
            signed.author,
            signed.message(verb, items[0]),
            on=on,
            merged=merged,
            at=signed.at,
            expected=expected,
        )

    def _item(self, commit: str, path: str) -> Item:
        return read_item(self.repository.read(commit, path) or "", path)

    def _check_not_overtaken(self, row: Record, tip: str, head: str | None) -> None:
        if head is None:
            return
        fork = self.repository.fork_point(head, tip)
        untouched = (
            self.repository.same_file(fork, head, row["path"])
            if fork is not None
            else self.repository.read(head, row["path"]) is None
        )
        if not untouched:
            raise ProposalOvertaken(row["id"])


def _items_among(listing: Mapping[str, str]) -> dict[str, str]:
    return {path: blob for path, blob in listing.items() if locate(path) is not None}
