"""What can go wrong with documents."""

from dragoman.errors import Conflict, DragomanError, Kind
from dragoman.services.tasks.actions.errors import ResourceMoved


class DocumentInvalid(DragomanError):
    """The content is not what its media type says."""

    kind, code = Kind.INVALID, "DOCUMENT_INVALID"

    def __init__(self, media_type: str, reason: str) -> None:
        super().__init__(f"this is no {media_type}: {reason}", media_type=media_type, reason=reason)


class DocumentTooComplex(DragomanError):
    """Reading the content takes more time, memory or revisions than one document may use."""

    kind, code = Kind.INVALID, "DOCUMENT_INVALID"

    def __init__(self, media_type: str, excess: str) -> None:
        super().__init__(
            f"this {media_type} is not read: {excess}; print it anew, or make it shorter",
            media_type=media_type,
            reason="TOO_COMPLEX",
            excess=excess,
        )


class DocumentTooLarge(DragomanError):
    """The document is larger than this server keeps."""

    kind, code = Kind.TOO_LARGE, "DOCUMENT_TOO_LARGE"

    def __init__(self, size_bytes: int, *, limit_bytes: int) -> None:
        super().__init__(
            f"the document has {size_bytes} bytes; at most {limit_bytes} are kept",
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
        )


class NameTaken(Conflict):
    """Another document of the tenant has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a document named {name!r} already", reason="NAME_TAKEN", name=name)


class DocumentClosed(Conflict):
    """The document is out for signature, or executed: what was read and signed does not change."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the document is {state} and takes no such version", reason="DOCUMENT_CLOSED", state=state)


class WrongContent(ResourceMoved):
    """What the caller knows of the document is not what is stored."""

    def __init__(self, *, expected: str, current: str, version: int) -> None:
        super().__init__(
            f"version {version} has other content than the caller knows",
            reason="CONTENT_MISMATCH",
            expected=expected,
            current=current,
            version=version,
        )


class VersionMoved(ResourceMoved):
    """There is a newer version than the one the caller acts on."""

    def __init__(self, *, expected: int, current: int) -> None:
        super().__init__(
            f"version {expected} is not the newest: {current} is",
            reason="VERSION_MOVED",
            expected=expected,
            current=current,
        )


class Unprintable(DragomanError):
    """A text has characters that no font of the server shows; a contract with gaps is not made."""

    kind, code = Kind.INVALID, "DOCUMENT_UNPRINTABLE"

    def __init__(self, text: str) -> None:
        super().__init__(f"no font of this server shows {text!r}", text=text)


class NotSigned(Conflict):
    """A document is to be executed that nobody can be shown to have signed."""

    def __init__(self, version: int, explanation: str) -> None:
        super().__init__(
            f"version {version} is not shown to be signed: {explanation}",
            reason="NOT_SIGNED",
            version=version,
            explanation=explanation,
        )


class EvidenceUnknown(Conflict):
    """Evidence is named that the tenant does not keep."""

    def __init__(self, unknown: list[str]) -> None:
        super().__init__("the evidence is not kept here; add it as a document first", reason="EVIDENCE_UNKNOWN",
                         sha256=unknown)  # fmt: skip
