"""A tenant's bare git repository. Everything here blocks and belongs in a thread; an object belongs to one thread.

References move by compare-and-swap: whoever loses the race is told so (`Moved`) and has changed nothing. What is
written before a reference moves is unreachable, and git collects it some day.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pygit2
from pygit2 import Blob, Commit, Signature
from pygit2.enums import DeltaStatus, FileMode, RepositoryOpenFlag, SortMode

from dragoman.services.knowledge.errors import Moved
from dragoman.services.knowledge.items import MAIN, Author, name_in_git

_HEADS = "refs/heads/"
_MOST_WALKED = 50_000
_MOST_DIFF = 200_000


@dataclass(frozen=True, slots=True)
class Change:
    """One commit, as a history lists it."""

    commit: str
    author: str
    email: str
    at: datetime
    message: str


class Repository:
    """Reads and writes one repository."""

    def __init__(self, path: Path) -> None:
        self._git = pygit2.Repository(str(path), RepositoryOpenFlag.BARE | RepositoryOpenFlag.NO_SEARCH)

    @classmethod
    def open(cls, path: Path) -> "Repository":
        """The repository at a path, which is made when there is none; safe when several processes do so at once."""
        if not (path / "HEAD").exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Made elsewhere and put in place as a whole: of those who come at once, one is first and all find it.
            with TemporaryDirectory(prefix=".new-", dir=path.parent) as elsewhere:
                made = Path(elsewhere) / path.name
                pygit2.init_repository(str(made), bare=True, initial_head=MAIN)
                with suppress(OSError):
                    made.rename(path)
        return cls(path)

    @property
    def git(self) -> pygit2.Repository:
        """The repository itself, for those who fetch and merge."""
        return self._git

    def find_head(self, branch: str = MAIN) -> str | None:
        """The commit that a branch is at, or None."""
        reference = self._git.references.get(_HEADS + branch)
        return str(reference.target) if reference is not None else None

    def branches(self, prefix: str) -> dict[str, str]:
        """Branches below a prefix, with the commits they are at."""
        wanted = _HEADS + prefix
        names = [name for name in self._git.references if name.startswith(wanted)]
        return {name.removeprefix(_HEADS): str(self._git.references[name].target) for name in names}

    def read(self, commit: str, path: str) -> str | None:
        """A file at a commit, or None; bytes that are no UTF-8 are replaced."""
        blob = self._find_blob(self._commit(commit), path)
        return blob.data.decode(errors="replace") if blob is not None else None

    def same_file(self, one: str, other: str, path: str) -> bool:
        """Whether a file is the same at two commits."""
        mine, theirs = (self._find_blob(self._commit(commit), path) for commit in (one, other))
        return (mine.id if mine else None) == (theirs.id if theirs else None)

    def fork_point(self, one: str, other: str) -> str | None:
        """The last commit that two have in common."""
        found = cast(
            "object", self._git.merge_base(pygit2.Oid(hex=one), pygit2.Oid(hex=other))
        )  # its type forgets None
        return str(found) if found is not None else None

    def listing(self, commit: str, since: str | None = None) -> dict[str, str]:
        """The files of a commit with the ids of their contents; with `since`, only those that differ from there."""
        tree = self._commit(commit).tree
        diff = tree.diff_to_tree(swap=True) if since is None else self._commit(since).tree.diff_to_tree(tree)
        plain = (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)
        return {
            delta.new_file.path: str(delta.new_file.id)
            for delta in diff.deltas
            if delta.status is not DeltaStatus.DELETED and delta.new_file.mode in plain
        }

    def text(self, blob: str) -> str:
        """The content of this id; bytes that are no UTF-8 are replaced."""
        found = self._git[blob]
        return found.data.decode(errors="replace") if isinstance(found, Blob) else ""

    def commit(
        self,
        branch: str,
        files: Mapping[str, str],
        author: Author,
        message: str,
        *,
        on: str | None,
        merged: Sequence[str] = (),
        at: datetime,
        expected: str | None,
    ) -> str:
        """Write files on top of a commit, and move the branch there from where it is expected (None: nowhere).

        Raises:
            Moved: the branch is no longer where it was.
        """
        index = pygit2.Index()
        if on is not None:
            index.read_tree(self._commit(on).tree)
        for path, text in files.items():
            index.add(pygit2.IndexEntry(path, self._git.create_blob(text.encode()), FileMode.BLOB))
        parents = [*([on] if on is not None else []), *merged]
        made = str(self._create(index.write_tree(self._git), parents, author, message, at))
        self.move(branch, made, expected=expected)
        return made

    def create(self, tree: pygit2.Oid, parents: Sequence[str], author: Author, message: str, at: datetime) -> str:
        """A commit that no branch is at yet."""
        return str(self._create(tree, parents, author, message, at))

    def move(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Move a branch, if it is where it is expected (None: nowhere).

        Raises:
            Moved: it is not.
        """
        name, target = _HEADS + branch, pygit2.Oid(hex=commit)
        try:
            if expected is None:
                self._git.references.create(name, target, force=False)
                return
            reference = self._git.references.get(name)
            if reference is None or str(reference.target) != expected:
                raise Moved
            # Libgit2 holds the reference against what was loaded, under its own lock.
            reference.set_target(target)
        except (pygit2.GitError, ValueError) as error:
            raise Moved from error

    def drop(self, branch: str) -> None:
        """Remove a branch; its commits stay where others reach them."""
        if self._git.references.get(_HEADS + branch) is not None:
            self._git.references.delete(_HEADS + branch)

    def log(self, commit: str, path: str, *, limit: int) -> list[Change]:
        """The commits that changed a file, newest first."""
        found: list[Change] = []
        for count, one in enumerate(self._git.walk(commit, SortMode.TOPOLOGICAL | SortMode.TIME)):
            if count >= _MOST_WALKED or len(found) >= limit:
                break
            here = self._entry(one, path)
            before = [self._entry(parent, path) for parent in one.parents]
            if here not in before and (here is not None or before):
                found.append(_change(one))
        return found

    def authors(self, commit: str, *, beyond: str | None) -> frozenset[str]:
        """Who made the commits that led to one, leaving out those that led to another as well."""
        walk = self._git.walk(commit, SortMode.TOPOLOGICAL)
        if beyond is not None:
            walk.hide(beyond)
        return frozenset(one.author.name for one in walk)

    def diff(self, old: str | None, new: str, path: str) -> str:
        """How a file changed between two commits, as a unified diff."""
        texts = [self.read(commit, path) or "" if commit is not None else "" for commit in (old, new)]
        lines = unified_diff(
            texts[0].splitlines(keepends=True), texts[1].splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
        return "".join(lines)[:_MOST_DIFF]

    def resolve(self, revision: str) -> str | None:
        """The commit that a full or shortened id names, or None."""
        try:
            found = cast("object", self._git.revparse_single(revision))
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return str(found.id) if isinstance(found, Commit) else None

    def committed_at(self, commit: str) -> datetime:
        """When a commit was made."""
        return _moment(self._commit(commit))

    def _commit(self, commit: str) -> Commit:
        found = cast("object", self._git.get(commit))
        if not isinstance(found, Commit):
            raise KeyError(commit)
        return found

    def _entry(self, commit: Commit, path: str) -> pygit2.Oid | None:
        try:
            return commit.tree[path].id
        except KeyError:
            return None

    def _find_blob(self, commit: Commit, path: str) -> Blob | None:
        try:
            found = commit.tree[path]
        except KeyError:
            return None
        return found if isinstance(found, Blob) else None

    def _create(
        self, tree: pygit2.Oid, parents: Sequence[str], author: Author, message: str, at: datetime
    ) -> pygit2.Oid:
        name, email = name_in_git(author.name), name_in_git(author.email)
        signature = Signature(name, email, int(at.timestamp()), 0, "utf-8")
        return self._git.create_commit(
            None, signature, signature, message, tree, [pygit2.Oid(hex=parent) for parent in parents]
        )


def _change(commit: Commit) -> Change:
    author = commit.author
    return Change(str(commit.id), author.name, author.email, _moment(commit), commit.message.strip())


def _moment(commit: Commit) -> datetime:
    zone = timezone(timedelta(minutes=commit.commit_time_offset))
    return datetime.fromtimestamp(commit.commit_time, zone).astimezone(UTC)
