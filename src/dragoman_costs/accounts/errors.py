"""What goes wrong with cloud accounts."""

from typing import Any

from dragoman.errors import DragomanError, Kind


class ExportsUnreadable(DragomanError):
    """The exports of an account cannot be read; another attempt would find the same."""

    kind, code = Kind.CONFLICT, "EXPORTS_UNREADABLE"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
