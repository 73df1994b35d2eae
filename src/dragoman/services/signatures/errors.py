"""What can go wrong with requests for signatures."""

from typing import Any

from dragoman.errors import Conflict, DragomanError, Forbidden, Kind
from dragoman.services.tasks.actions.errors import ResourceMoved


class NoSigningProvider(Conflict):
    """The tenant has not configured the provider."""

    code = "NO_SIGNING_PROVIDER"

    def __init__(self, provider: str) -> None:
        super().__init__(f"{provider} is not configured for this tenant; see signature.configure", provider=provider)


class SignatureState(Conflict):
    """The request is in a state in which this cannot be done."""

    code = "SIGNATURE_STATE"

    def __init__(self, status: str, wanted: str) -> None:
        super().__init__(f"the request is {status}; it cannot be {wanted}", status=status, wanted=wanted)


class DocumentMoved(ResourceMoved):
    """What is to be signed is not what the caller has in mind."""

    def __init__(self, *, expected: str, current: str) -> None:
        super().__init__(
            "the document is another than the request is for",
            reason="DOCUMENT_MOVED",
            expected=expected,
            current=current,
        )


class NotTheSigner(Forbidden):
    """Somebody else is asked to sign."""

    def __init__(self) -> None:
        super().__init__("only those whom the request names sign it, each for themselves", reason="NOT_THE_SIGNER")


class SignerNotVerified(Forbidden):
    """The name and address of the signer were not verified."""

    def __init__(self) -> None:
        super().__init__(
            "name and address are not verified: accept your invitation, or answer the link that you were sent",
            reason="SIGNER_NOT_VERIFIED",
        )


class SignerChanged(Conflict):
    """The record of the signer has changed since the request was prepared."""

    def __init__(self) -> None:
        super().__init__(
            "the user record has another name or address than the request: void the request, and prepare it again",
            reason="SIGNER_CHANGED",
        )


class SendingNotApproved(Conflict):
    """No approval of the sending names who signs by a link."""

    def __init__(self) -> None:
        super().__init__(
            "the request was sent without an approval that shows who signs by a link: void it, and send it with one",
            reason="NOT_APPROVED",
        )


class NotAPerson(Forbidden):
    """A program tried to sign."""

    def __init__(self) -> None:
        super().__init__("people sign; agents and services do not", reason="NOT_A_PERSON")


class NotYourTurn(Conflict):
    """Others sign first."""

    def __init__(self, waits_for: list[str]) -> None:
        super().__init__("others sign first", reason="NOT_YOUR_TURN", waits_for=waits_for)


class ProviderRefused(DragomanError):
    """The provider was reached and said no; trying again will not help. `unknown` when it knows no such request."""

    kind, code = Kind.CONFLICT, "SIGNATURE_REFUSED"

    def __init__(self, provider: str, status: int, words: dict[str, Any]) -> None:
        said = str(words.get("message") or f"HTTP {status}")
        super().__init__(f"{provider} refused: {said}", provider=provider, status=status, error=words.get("error"))
        self.unknown = status == 404
