"""Fetching from a remote and merging what it has. Everything here blocks and belongs in a thread."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, cast
from uuid import uuid4

import pygit2
from pygit2.enums import FileMode, MergeFavor

from dragoman.services.knowledge.errors import RemoteUnavailable
from dragoman.services.knowledge.items import MAIN, Signed
from dragoman.services.knowledge.repository import Repository

_REMOTE, _FETCHED = "refs/remotes/origin/", "refs/fetched/"
_FAVORS = {"stop": MergeFavor.NORMAL, "ours": MergeFavor.OURS, "theirs": MergeFavor.THEIRS}


@dataclass(frozen=True, slots=True)
class Merge:
    """How a merge ended: where the main branch is now, or the files that both sides changed."""

    head: str | None
    conflicts: list[str] = field(default_factory=list[str])


class _Watch(pygit2.RemoteCallbacks):
    """Follows a transfer, and ends it when it is too large or no longer wanted."""

    def __init__(self, *, most_bytes: int, stopped: Event, tell: Callable[[int, int], None]) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self._stopped = stopped
        self._tell = tell

    def transfer_progress(self, stats: Any) -> None:
        """Called by libgit2 for every piece."""
        if self._stopped.is_set():
            raise InterruptedError("stopped")
        if stats.received_bytes > self._most_bytes:
            raise OverflowError(f"it has more than {self._most_bytes} bytes")
        self._tell(stats.received_objects, stats.total_objects)

    def credentials(self, url: str, username_from_url: str | None, allowed_types: Any) -> Any:  # noqa: ARG002 - libgit2's
        """The server's own keys, as its agent has them; nothing else is tried."""
        return pygit2.KeypairFromAgent(username_from_url or "git")


def fetch(
    repository: Repository,
    remote: str,
    branch: str,
    *,
    most_bytes: int,
    stopped: Event,
    tell: Callable[[int, int], None],
) -> str:
    """Bring a remote's branch here; the commit that it is at.

    Raises:
        RemoteUnavailable: it cannot be had; nothing here has changed.
    """
    git = repository.git
    # A redirect would lead past whoever judged the address.
    git.config["http.followRedirects"] = "false"
    # A name of its own: another sync of the same repository may be under way, here or in another process.
    name = _FETCHED + uuid4().hex
    watch = _Watch(most_bytes=most_bytes, stopped=stopped, tell=tell)
    try:
        git.remotes.create_anonymous(remote).fetch([f"+refs/heads/{branch}:{name}"], callbacks=watch)
    except (pygit2.GitError, OSError, ValueError, KeyError, OverflowError) as error:
        raise RemoteUnavailable(remote, str(error)[:300] or type(error).__name__) from error
    reference = git.references.get(name)
    if reference is None:
        raise RemoteUnavailable(remote, f"it has no branch {branch!r}")
    theirs = str(reference.target)
    # Kept, so that what could not be merged is not fetched again; another sync may be keeping its own just now.
    with suppress(pygit2.GitError):
        git.references.create(_REMOTE + branch, theirs, force=True)
    reference.delete()
    return theirs


def merge(repository: Repository, theirs: str, signed: Signed, *, remote: str, on_conflict: str) -> Merge:
    """Merge a fetched commit into the main branch.

    Raises:
        Moved: somebody moved the main branch at the same moment.
    """
    ours = repository.find_head()
    base = repository.fork_point(ours, theirs) if ours is not None else None
    if ours is None or base == ours:
        repository.move(MAIN, theirs, expected=ours)
        return Merge(theirs)
    if base == theirs:
        return Merge(ours)
    git = repository.git
    empty = git.TreeBuilder().write()
    ancestor, mine, other = (git[commit].peel(pygit2.Tree) if commit else git[empty] for commit in (base, ours, theirs))
    index = git.merge_trees(cast("Any", ancestor), cast("Any", mine), cast("Any", other), favor=_FAVORS[on_conflict])
    disputed = list(cast("Any", index.conflicts) or [])
    if disputed and on_conflict == "stop":
        return Merge(ours, [_path(entries) for entries in disputed])
    for entries in disputed:
        _settle(index, entries, take=1 if on_conflict == "ours" else 2)
    message = f"Merge {remote}"
    made = repository.create(index.write_tree(git), [ours, theirs], signed.author, message, signed.at)
    repository.move(MAIN, made, expected=ours)
    return Merge(made)


def _path(entries: Any) -> str:
    return str(next(entry.path for entry in entries if entry is not None))


def _settle(index: Any, entries: Any, *, take: int) -> None:
    """Take one side of a file that one changed and the other removed."""
    path, chosen = _path(entries), entries[take]
    del index.conflicts[path]
    if chosen is not None:
        index.add(pygit2.IndexEntry(path, chosen.id, FileMode.BLOB))
    else:
        with suppress(KeyError, OSError):
            index.remove(path)
