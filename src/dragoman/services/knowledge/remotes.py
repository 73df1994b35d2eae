"""Fetching from a remote and merging what it has. Everything here blocks and belongs in a thread."""

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, cast

import pygit2
from pygit2.enums import FileMode, MergeFavor

from dragoman.services.knowledge.errors import RemoteUnavailable
from dragoman.services.knowledge.items import MAIN, Signed
from dragoman.services.knowledge.repository import Repository

_REMOTE = "refs/remotes/origin/"
_RETRY_S = 0.2
# A remote that says nothing for so long is given up: the thread that reads from it cannot be cancelled.
_SILENCE_S = 30.0
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
    silence_s: float = _SILENCE_S,
) -> str:
    """Bring a remote's branch here, one fetch at a time; the commit that it is at.

    Raises:
        RemoteUnavailable: it cannot be had, or says nothing for `silence_s`; nothing here has changed.
    """
    # libgit2 has these for the whole process, and they are the same for every fetch.
    pygit2.settings.server_timeout = pygit2.settings.server_connect_timeout = round(silence_s * 1000)
    with _alone(repository.git, stopped):
        return _fetch(repository.git, remote, branch, _Watch(most_bytes=most_bytes, stopped=stopped, tell=tell))


def _fetch(git: pygit2.Repository, remote: str, branch: str, watch: _Watch) -> str:
    # A redirect would lead past whoever judged the address.
    git.config["http.followRedirects"] = "false"
    name = _REMOTE + branch
    with suppress(KeyError):
        git.references.delete(name)
    try:
        git.remotes.create_anonymous(remote).fetch([f"+refs/heads/{branch}:{name}"], callbacks=watch)
    except (pygit2.GitError, OSError, ValueError, KeyError, OverflowError) as error:
        raise RemoteUnavailable(remote, str(error)[:300] or type(error).__name__) from error
    reference = git.references.get(name)
    if reference is None:
        raise RemoteUnavailable(remote, f"it has no branch {branch!r}")
    return str(reference.target)


@contextmanager
def _alone(git: pygit2.Repository, stopped: Event) -> Generator[None]:
    """Wait until no other thread or process fetches into this repository; whoever dies lets go of the lock."""
    with (Path(git.path) / "fetch.lock").open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stopped.wait(_RETRY_S):
                    raise InterruptedError("stopped") from None
        yield


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
