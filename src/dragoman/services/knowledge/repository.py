"""A tenant's bare git repository. Everything here blocks and belongs in a thread; an object belongs to one thread.

The directory is a cache of objects. Where the branches are comes from the rows, and goes back there as `moves`: a
branch moves by compare-and-swap, in the transaction that also has the index. What no branch reaches has no effect.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pygit2
from pygit2 import Blob, Commit, Signature, Tree
from pygit2.enums import DeltaStatus, FileMode, ObjectType, RepositoryOpenFlag, SortMode

from dragoman.errors import FieldError, InvalidInput
from dragoman.services.knowledge.errors import ItemRefused, Moved
from dragoman.services.knowledge.items import MAIN, MOST_BYTES, Author, name_in_git

_HEADS = "refs/heads/"
_REVISION, _ID = re.compile(r"^([^~^]+)((?:[~^]\d*)*)$"), re.compile(r"^[0-9a-f]{4,40}$")
_MOST_WALKED = 50_000
_MOST_DIFF = 200_000
# A tree may name another many times: a pack of a kilobyte can have more paths than there are seconds.
MOST_FILES = 100_000
_LONGEST_PATH = 4_096
# Of a commit or a folder, which git reads as a whole.
_MOST_OBJECT = 16 << 20
_PLAIN = (FileMode.BLOB, FileMode.BLOB_EXECUTABLE)


class TooManyFiles(InvalidInput):
    """A revision has more files than are worked with."""

    def __init__(self) -> None:
        told = f"has more than {MOST_FILES} files and folders, or one whose path is too long"
        super().__init__([FieldError(field="revision", message=told)], f"the revision {told}")


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

    def __init__(self, path: Path, refs: Mapping[str, str]) -> None:
        self._git = pygit2.Repository(str(path), RepositoryOpenFlag.BARE | RepositoryOpenFlag.NO_SEARCH)
        self._before = dict(refs)
        self._refs = dict(refs)

    @classmethod
    def open(cls, path: Path, refs: Mapping[str, str] | None = None) -> "Repository":
        """The repository at a path, which is made when there is none; safe when several processes do so at once."""
        if not (path / "HEAD").exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Made elsewhere and put in place as a whole: of those who come at once, one is first and all find it.
            with TemporaryDirectory(prefix=".new-", dir=path.parent) as elsewhere:
                made = Path(elsewhere) / path.name
                pygit2.init_repository(str(made), bare=True, initial_head=MAIN)
                with suppress(OSError):
                    made.rename(path)
        return cls(path, refs or {})

    @property
    def git(self) -> pygit2.Repository:
        """The repository itself, for those who fetch and merge."""
        return self._git

    @property
    def moves(self) -> dict[str, tuple[str | None, str | None]]:
        """The branches that are elsewhere than they were: from where, to where."""
        names = self._before.keys() | self._refs.keys()
        moved = {name: (self._before.get(name), self._refs.get(name)) for name in sorted(names)}
        return {name: (old, new) for name, (old, new) in moved.items() if old != new}

    def check_complete(self) -> None:
        """Look for the commits that the branches are at.

        Raises:
            KeyError: one is not here.
        """
        for commit in self._refs.values():
            if not self.has(commit):
                raise KeyError(commit)

    def has(self, commit: str) -> bool:
        """Whether an object is here."""
        return pygit2.Oid(hex=commit) in self._git

    def stored_refs(self) -> dict[str, str]:
        """The branches as the directory itself has them: the truth before they were rows."""
        names = [name for name in self._git.references if name.startswith(_HEADS)]
        return {name.removeprefix(_HEADS): str(self._git.references[name].target) for name in names}

    def show_remotes(self) -> None:
        """Let a remote see what is here, so that it sends only what is not."""
        if (head := self.find_head()) is not None:
            self._git.references.create(_HEADS + MAIN, pygit2.Oid(hex=head), force=True)

    def find_head(self, branch: str = MAIN) -> str | None:
        """The commit that a branch is at, or None."""
        return self._refs.get(branch)

    def branches(self, prefix: str) -> dict[str, str]:
        """Branches below a prefix, with the commits they are at."""
        return {name: commit for name, commit in self._refs.items() if name.startswith(prefix)}

    def read(self, commit: str, path: str) -> str | None:
        """A file at a commit, or None; bytes that are no UTF-8 are replaced.

        Raises:
            ItemRefused: it is larger than an item may be.
        """
        blob = self._find_blob(self._commit(commit), path)
        return self.text(str(blob.id), path) if blob is not None else None

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
        """The files of a commit with the ids of their contents; with `since`, only those that differ from there.

        Raises:
            TooManyFiles: there are more than `MOST_FILES`.
        """
        tree = self._commit(commit).tree
        if since is None:
            return self._files(tree)
        diff = self._commit(since).tree.diff_to_tree(tree)
        return {
            delta.new_file.path: str(delta.new_file.id)
            for delta in diff.deltas
            if delta.status is not DeltaStatus.DELETED and delta.new_file.mode in _PLAIN
        }

    def check_size(self, commit: str) -> None:
        """Refuse a commit of a stranger that is too large to be worked with, at a price that it cannot raise.

        Raises:
            TooManyFiles: it has more files than `MOST_FILES`, or one in folders too deep.
            ValueError: a commit or a folder is larger than 16 MiB by itself.
        """
        odb = self._git.odb
        for oid in odb:
            kind, size = odb.read_header(oid)
            if kind in (ObjectType.COMMIT, ObjectType.TREE) and size > _MOST_OBJECT:
                raise ValueError(f"{oid} has more than {_MOST_OBJECT} bytes")
        self._files(self._commit(commit).tree)

    def _files(self, top: Tree) -> dict[str, str]:
        found: dict[str, str] = {}
        open_trees, seen = [("", top)], 0
        while open_trees:
            folder, tree = open_trees.pop()
            for entry in tree:
                seen += 1
                path = f"{folder}{entry.name}"
                if seen > MOST_FILES or len(path) > _LONGEST_PATH:
                    raise TooManyFiles
                if isinstance(entry, Tree):
                    open_trees.append((f"{path}/", entry))
                elif entry.filemode in _PLAIN:
                    found[path] = str(entry.id)
        return found

    def text(self, blob: str, path: str) -> str:
        """The content of this id, of a file at a path; bytes that are no UTF-8 are replaced.

        Raises:
            ItemRefused: it is larger than an item may be. It is not read then: its bytes may be few on the disk only.
        """
        kind, size = self._git.odb.read_header(pygit2.Oid(hex=blob))
        if size > MOST_BYTES:
            raise ItemRefused("content", f"must not exceed {MOST_BYTES} bytes", file=path, line=1)
        found = self._git[blob]
        return found.data.decode(errors="replace") if isinstance(found, Blob) and kind == ObjectType.BLOB else ""

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
        if self._refs.get(branch) != expected:
            raise Moved
        self._refs[branch] = commit

    def drop(self, branch: str) -> None:
        """Remove a branch; its commits stay where others reach them."""
        self._refs.pop(branch, None)

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
        """The commit that a branch or a full or shortened id names, with steps back such as `main~2`, or None."""
        matched = _REVISION.match(revision)
        named, steps = (matched[1], matched[2]) if matched else ("", "")
        start = self._refs.get(MAIN if named == "HEAD" else named) or (named if _ID.match(named) else None)
        if start is None:
            return None
        try:
            found = cast("object", self._git.revparse_single(start + steps))
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
