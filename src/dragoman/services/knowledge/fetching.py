"""The process that fetches from remotes, which decide how long they keep one waiting: a process can be killed."""

from pathlib import Path
from typing import Any

from dragoman.infra.frames import Tell, serve
from dragoman.services.knowledge.errors import RemoteProblem
from dragoman.services.knowledge.remotes import FetchFailed, fetch, leave_settings
from dragoman.services.knowledge.repository import Repository, TooManyFiles
from dragoman.services.knowledge.routes import RemoteKey, Route


def answer(request: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Fetch a branch into a repository; return its commit, or why the remote cannot be read."""
    told = -1

    def progress(received: int, total: int) -> None:
        # By the per cent and not by the clock: a remote that goes silent leaves the newest figure behind.
        nonlocal told
        percent = 100 * received // max(1, total)
        if percent > told:
            told = percent
            tell({"received": received, "total": total})

    repository = Repository.open(Path(request["repository"]))
    try:
        commit = fetch(
            repository,
            Route.read(request["route"]),
            request["branch"],
            key=RemoteKey.read(request["key"]) if request["key"] else None,
            most_bytes=request["most_bytes"],
            tell=progress,
            silence_s=request["silence_s"],
        )
        repository.check_size(commit)
    except (TooManyFiles, ValueError) as error:
        return {"problem": RemoteProblem.TOO_MUCH.value, "detail": str(error)}
    except FetchFailed as failure:
        return {"problem": failure.problem.value, "detail": failure.detail}
    return {"commit": commit}


if __name__ == "__main__":
    leave_settings()
    serve(answer)
