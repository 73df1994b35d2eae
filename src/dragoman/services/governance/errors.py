from dragoman.errors import DragomanError, Kind


class UnknownRevision(DragomanError):
    """The knowledge has no such commit, branch or tag."""

    kind, code = Kind.NOT_FOUND, "NOT_FOUND"

    def __init__(self, revision: str) -> None:
        super().__init__(f"the knowledge has no revision {revision!r}", revision=revision)
