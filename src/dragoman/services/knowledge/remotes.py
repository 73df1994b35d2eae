"""Fetching from a remote and merging what it has. Everything here blocks; fetching has a process (`fetching`)."""

import fcntl
import re
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import pygit2
from pygit2.enums import ConfigLevel, FileMode, MergeFavor

from dragoman.infra.relay import Relay
from dragoman.services.knowledge.errors import RemoteProblem
from dragoman.services.knowledge.items import MAIN, Signed
from dragoman.services.knowledge.repository import Repository
from dragoman.services.knowledge.routes import RemoteKey, Route

_REMOTE = "refs/remotes/origin/"
_BROKEN: Final = re.compile(r"timed out|timeout|socket|failed to (send|recv|receive|connect)|SSL error", re.IGNORECASE)
_STATUS: Final = re.compile(r"status code: ([0-9]{3})")
_DENIED: Final = frozenset({401, 403, 407})
_LATER: Final = frozenset({408, 425, 429})
_PACKED = {".pack", ".idx", ".rev", ".keep", ".bitmap"}
_FAVORS = {"stop": MergeFavor.NORMAL, "ours": MergeFavor.OURS, "theirs": MergeFavor.THEIRS}


@dataclass(frozen=True, slots=True)
class Merge:
    """How a merge ended: where the main branch is now, or the files that both sides changed."""

    head: str | None
    conflicts: list[str] = field(default_factory=list[str])


class FetchFailed(Exception):
    """A fetch that did not succeed: what callers are told, and what the log of the server is told."""

    def __init__(self, problem: RemoteProblem, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem
        self.detail = detail


class _Unauthorized(Exception):
    """The remote asks for credentials that there are not, or refuses those that there are."""


class _Watch(pygit2.RemoteCallbacks):
    """Follows a transfer, ends it when it is too large, and answers for who we are."""

    def __init__(self, key: RemoteKey | None, user: str, *, most_bytes: int, tell: Callable[[int, int], None]) -> None:
        super().__init__()
        self._key = key
        self._user = user
        self._most_bytes = most_bytes
        self._tell = tell
        self._asked = False
        self.verified = False

    def transfer_progress(self, stats: Any) -> None:
        """Called by libgit2 for every piece."""
        if stats.received_bytes > self._most_bytes:
            raise OverflowError(f"it has more than {self._most_bytes} bytes")
        self._tell(stats.received_objects, stats.total_objects)

    def certificate_check(self, certificate: None, valid: bool, host: bytes) -> bool:  # noqa: ARG002, FBT001 - libgit2's
        """Accept what TLS has verified for the name, or the host key that was pinned; nothing else."""
        self.verified = bool(valid)
        return self.verified

    def credentials(self, url: str, username_from_url: str | None, allowed_types: Any) -> Any:  # noqa: ARG002 - libgit2's
        """Give the credentials of this remote, once: a remote that asks again has refused them."""
        if self._key is None or self._asked or not self.verified:
            raise _Unauthorized
        self._asked = True
        if self._key.private_key is not None:
            return pygit2.KeypairFromMemory(self._user, None, self._key.private_key, "")
        return pygit2.UserPass(self._key.username, self._key.token)


def leave_settings() -> None:
    """Forget what the machine and the user of this process have set for git, which is not meant for tenants."""
    for level in (ConfigLevel.PROGRAMDATA, ConfigLevel.SYSTEM, ConfigLevel.XDG, ConfigLevel.GLOBAL):
        pygit2.settings.search_path[level] = ""


def fetch(
    repository: Repository,
    route: Route,
    branch: str,
    *,
    key: RemoteKey | None = None,
    most_bytes: int,
    tell: Callable[[int, int], None],
    silence_s: float,
) -> str:
    """Bring a remote's branch here, one fetch at a time; the commit that it is at.

    Raises:
        FetchFailed: it cannot be had, or says nothing for `silence_s`; nothing here has changed.
    """
    # libgit2 has these for the whole process, and they are the same for every fetch.
    pygit2.settings.server_timeout = pygit2.settings.server_connect_timeout = round(silence_s * 1000)
    watch = _Watch(key, route.user, most_bytes=most_bytes, tell=tell)
    with _alone(repository.git), _way_to(route, key, silence_s) as (url, proxy):
        return _fetch(repository.git, route, url, branch, proxy, watch)


@contextmanager
def _way_to(route: Route, key: RemoteKey | None, silence_s: float) -> Generator[tuple[str, str | None]]:
    """Give the address and the proxy by which libgit2 comes to the remote without resolving a name."""
    if route.scheme == "file":
        yield route.remote, None
        return
    proxied = route.host if route.scheme == "https" else None
    with Relay(route.addresses, route.port, host=proxied, silence_s=silence_s) as relay:
        if proxied is not None:
            _check_certificate(relay, proxied)
            yield route.remote, f"http://127.0.0.1:{relay.port}"
            return
        with TemporaryDirectory() as home:
            # Where libgit2 looks for the keys of hosts; those of the user of this process are nobody's to use.
            known = Path(home) / ".ssh" / "known_hosts"
            known.parent.mkdir(mode=0o700)
            known.write_text("".join(f"[127.0.0.1]:{relay.port} {each}\n" for each in (key.host_keys if key else ())))
            pygit2.settings.homedir = home
            yield route.url_by(relay.port), None


def _check_certificate(relay: Relay, host: str) -> None:
    """Refuse a host that does not prove its name.

    libgit2 checks it again on its own connection. It must not be the first: behind a proxy, libgit2 1.9 waits for ever
    on a socket that it has closed when a certificate is not to be trusted.

    Raises:
        FetchFailed: it cannot be reached, or it is another.
    """
    raw = relay.dial()
    if raw is None:
        raise FetchFailed(RemoteProblem.UNREACHABLE, "no connection")
    try:
        with raw, ssl.create_default_context().wrap_socket(raw, server_hostname=host):
            pass
    except (OSError, ValueError) as error:
        raise FetchFailed(RemoteProblem.UNREACHABLE, str(error)[:300] or type(error).__name__) from error


def _fetch(git: pygit2.Repository, route: Route, url: str, branch: str, proxy: str | None, watch: _Watch) -> str:
    # A redirect would lead past whoever judged the address.
    git.config["http.followRedirects"] = "false"
    name = _REMOTE + branch
    with suppress(KeyError):
        git.references.delete(name)
    try:
        git.remotes.create_anonymous(url).fetch([f"+refs/heads/{branch}:{name}"], callbacks=watch, proxy=proxy)
    except _Unauthorized as error:
        raise FetchFailed(RemoteProblem.UNAUTHORIZED, "the credentials are missing or were refused") from error
    except OverflowError as error:
        raise FetchFailed(RemoteProblem.TOO_MUCH, str(error)) from error
    except (pygit2.GitError, OSError, ValueError, KeyError) as error:
        detail = str(error)[:300] or type(error).__name__
        raise FetchFailed(_problem(route, detail, verified=watch.verified), detail) from error
    reference = git.references.get(name)
    if reference is None:
        raise FetchFailed(RemoteProblem.NO_BRANCH, f"it has no branch {branch!r}")
    return str(reference.target)


def _problem(route: Route, detail: str, *, verified: bool) -> RemoteProblem:
    """Class a failure. Before the host has proved who it is, everything looks alike."""
    if route.scheme == "file":
        return RemoteProblem.NO_REPOSITORY
    if not verified or _BROKEN.search(detail):
        return RemoteProblem.UNREACHABLE
    status = _STATUS.search(detail)
    if status is None:
        return RemoteProblem.NO_REPOSITORY
    if int(status[1]) in _DENIED:
        return RemoteProblem.UNAUTHORIZED
    passing = int(status[1]) in _LATER or int(status[1]) >= 500
    return RemoteProblem.UNREACHABLE if passing else RemoteProblem.NO_REPOSITORY


@contextmanager
def _alone(git: pygit2.Repository) -> Generator[None]:
    """Wait until no other process fetches into this repository; a process that dies lets go of the lock."""
    with (Path(git.path) / "fetch.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What a fetch that was killed had received so far: only fetches write packs, and this is the only one.
        for left in (Path(git.path) / "objects" / "pack").glob("*"):
            if left.suffix not in _PACKED:
                left.unlink(missing_ok=True)
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
