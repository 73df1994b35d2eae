"""What can go wrong with knowledge, beyond the general kinds."""

from enum import StrEnum
from typing import Final

from dragoman.errors import Conflict, DragomanError, FieldError, InvalidInput, Kind


class RemoteProblem(StrEnum):
    """Why a remote could not be fetched from, as callers are told; the log of the server has the details.

    A port that is closed, is silent, or speaks another protocol looks like one behind which TLS or the host key fails:
    otherwise the answers would tell what runs where in a network that the caller cannot see.
    """

    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"
    NO_REPOSITORY = "not_a_repository"
    NO_BRANCH = "no_branch"
    TOO_MUCH = "too_much"


_MESSAGES: Final = {
    RemoteProblem.UNREACHABLE: "it cannot be reached, or it does not prove that it is this host",
    RemoteProblem.UNAUTHORIZED: "it does not let this server in; set its credentials with knowledge.connect",
    RemoteProblem.NO_REPOSITORY: "there is no repository that can be read",
    RemoteProblem.NO_BRANCH: "the repository has no such branch",
    RemoteProblem.TOO_MUCH: "it has more than one sync may fetch",
}


class RemoteUnavailable(DragomanError):
    """The remote repository is not there, or will not be read; what was here stays as it was.

    No failure of this server: the caller named the remote.
    """

    kind, code, retryable = Kind.CONFLICT, "REMOTE_UNAVAILABLE", True

    def __init__(self, remote: str, problem: RemoteProblem) -> None:
        super().__init__(f"cannot fetch from {remote}: {_MESSAGES[problem]}", remote=remote, reason=problem.value)
        self.problem = problem


class ItemExists(Conflict):
    """Another item has this id."""

    def __init__(self, item_id: str) -> None:
        super().__init__(f"there is an item {item_id!r} already", id=item_id, reason="ITEM_EXISTS")


class Immutable(Conflict):
    """A decision that was taken is not rewritten but superseded by another."""

    def __init__(self, item_id: str, status: str) -> None:
        super().__init__(
            f"the decision {item_id!r} is {status} and cannot be changed; propose another that supersedes it",
            id=item_id,
            reason="IMMUTABLE",
        )


class WrongStatus(Conflict):
    """The item is not in a status from which this can be done."""

    def __init__(self, item_id: str, status: str, wanted: str) -> None:
        super().__init__(f"item {item_id!r} is {status}; it cannot become {wanted}", id=item_id, reason="WRONG_STATUS")


class ProposalOvertaken(Conflict):
    """What the proposal changes was changed since it was made."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"item {item_id!r} was changed since this was proposed; propose it again", id=item_id, reason="OVERTAKEN"
        )


class Moved(Conflict):
    """Somebody else changed the repository at the same moment, past this server; trying again is safe."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("the repository was changed at the same moment; try again", reason="REPOSITORY_MOVED")


class ItemRefused(InvalidInput):
    """A document that is no item: `details` say in which file and line."""

    def __init__(self, field: str, message: str, *, file: str, line: int) -> None:
        super().__init__([FieldError(field=field, message=f"{message} ({file}:{line})")])
        self.details |= {"file": file, "line": line}


class CheckTooLarge(DragomanError):
    """So many files against so many constraints would keep the server busy for too long."""

    kind, code = Kind.TOO_LARGE, "CHECK_TOO_LARGE"

    def __init__(self, *, limit_s: float) -> None:
        super().__init__(
            f"the check takes more than {limit_s:g} s of CPU time: send fewer files, or name items", limit_s=limit_s
        )
