"""What a signed PDF is worth: who signed, whether anything was touched since, and whether we vouch for them."""

import re
from typing import Any, Final

from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.models import FoundSignature, Verdict, Verification
from dragoman.services.signatures.press import Press

# How a signature looks in a file that can no longer be read.
_SIGNED: Final = re.compile(rb"/ByteRange|/Type\s*/Sig\b|/ETSI\.CAdES|/adbe\.pkcs7")
# What may follow a signature without touching what was signed: further signatures, and the fields they stand in.
_HARMLESS: Final = frozenset({"none", "lta_updates", "form_filling"})


_EXPLAINED: Final = {
    Verdict.VALID: "every signature is intact, nothing was changed since, and this installation vouches for all",
    Verdict.UNTRUSTED: "the signatures are intact, but others than this installation vouch for a signer",
    Verdict.MODIFIED: "something was added or changed after a signature that a further signature does not need",
    Verdict.TAMPERED: "the signed bytes are not those that were signed",
    Verdict.UNSIGNED: "nobody has signed it",
}


async def verify(press: Press, pdf: bytes, *, sha256: str) -> Verification:
    """Look at a PDF, whoever it is from.

    Raises:
        DocumentInvalid: it is no PDF. One that was signed and cannot be read any more is called tampered.
        ExtraMissing: this installation cannot read PDFs.
    """
    try:
        found = await press.inspect(pdf)
    except DocumentInvalid as error:
        if not pdf.startswith(b"%PDF-") or _SIGNED.search(pdf) is None:
            raise
        return _verification(
            Verdict.TAMPERED, sha256, None, [], f"it was signed and is broken: {error.details['reason']}"
        )
    raw: list[dict[str, Any]] = found["signatures"]
    signatures = [FoundSignature.model_validate(one) for one in raw]
    return _verification(_verdict(raw), sha256, found["pages"], signatures)


def _verdict(found: list[dict[str, Any]]) -> Verdict:
    if not found:
        return Verdict.UNSIGNED
    if not all(one["intact"] for one in found):
        return Verdict.TAMPERED
    harmless = all(one["later_changes"] in _HARMLESS and one["whole_revision"] and one["allowed"] for one in found)
    # What stands after the last signature is signed by nobody.
    if not harmless or not any(one["whole_file"] for one in found):
        return Verdict.MODIFIED
    return Verdict.VALID if all(one["trusted"] for one in found) else Verdict.UNTRUSTED


def _verification(
    verdict: Verdict, sha256: str, pages: int | None, signatures: list[FoundSignature], explanation: str | None = None
) -> Verification:
    return Verification(
        verdict=verdict,
        valid=verdict is Verdict.VALID,
        explanation=explanation or _EXPLAINED[verdict],
        sha256=sha256,
        pages=pages,
        signatures=signatures,
    )
