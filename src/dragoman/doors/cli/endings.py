"""How a command can end: with 0, or with one of these, which one place prints and turns into an exit code."""

from typing import Any

FAILED, USAGE, UNREACHABLE, NOT_ALLOWED = 1, 2, 3, 4


class Ending(Exception):
    """The command cannot go on; `error` is what programs see of it under `--json`."""

    status = FAILED
    code = "FAILED"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def error(self) -> dict[str, Any]:
        """The same shape as an error of any other door."""
        return {"code": self.code, "message": self.message, "details": {}}


class WrongUsage(Ending):
    """What was typed, or what is configured, makes no sense."""

    status, code = USAGE, "INVALID_PARAMS"


class NotAllowed(Ending):
    """There is no credential to act with."""

    status, code = NOT_ALLOWED, "UNAUTHENTICATED"


class Unreachable(Ending):
    """No server answers at this address."""

    status, code = UNREACHABLE, "UPSTREAM_UNAVAILABLE"


class Refused(Ending):
    """The server answered with a problem."""

    def __init__(self, problem: dict[str, Any], *, retry_after_s: int | None = None) -> None:
        super().__init__(str(problem.get("detail", "the server refused")))
        self.code = str(problem.get("code", "INTERNAL_ERROR"))
        self.problem = problem
        self.retry_after_s = retry_after_s
        # 401 and 403 are about who asks; everything else is about what is asked.
        self.status = NOT_ALLOWED if problem.get("status") in (401, 403) else FAILED

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Which fields are wrong, and how."""
        return [(str(item["field"]), str(item["message"])) for item in self.problem.get("errors", [])]

    @property
    def request_id(self) -> str | None:
        """What finds it in the server's log."""
        return self.problem.get("requestId")

    @property
    def error(self) -> dict[str, Any]:
        """As the server said it."""
        details = dict(self.problem.get("details", {}))
        if self.fields:
            details["errors"] = self.problem["errors"]
        if self.retry_after_s is not None:
            details["retry_after_s"] = self.retry_after_s
        return {"code": self.code, "message": self.message, "details": details, "request_id": self.request_id}
