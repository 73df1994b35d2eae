"""What can be wrong with an import."""

from collections.abc import Sequence

from dragoman.errors import Conflict, DragomanError, Kind


class ImportRefused(DragomanError):
    """A billing export cannot be imported; `reason` says why, and nothing of it is shown."""

    kind, code = Kind.INVALID, "IMPORT_REFUSED"

    def __init__(self, reason: str, message: str, *, columns: Sequence[str] = ()) -> None:
        super().__init__(f"the billing export cannot be imported: {message}", reason=reason)
        if columns:
            self.details["columns"] = list(columns)


class UploadIncomplete(Conflict):
    """An upload lacks parts, or is not what was announced."""

    code = "UPLOAD_INCOMPLETE"

    def __init__(self, message: str, *, missing: Sequence[int] = ()) -> None:
        super().__init__(message)
        if missing:
            self.details["missing_parts"] = list(missing)
