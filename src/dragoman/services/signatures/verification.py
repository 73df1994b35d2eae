"""What a signed PDF is worth: who signed, whether anything was touched since, and whether we vouch for them."""

import re
from typing import Any, Final

from dragoman.context import TenantId
from dragoman.services.contracts.errors import DocumentInvalid
from dragoman.services.signatures.certificates import PROOFS
from dragoman.services.signatures.models import FoundSignature, Verdict, Verification, Voucher
from dragoman.services.signatures.press import Press

# How a signature looks in a file that can no longer be read.
_SIGNED: Final = re.compile(rb"/ByteRange|/Type\s*/Sig\b|/ETSI\.CAdES|/adbe\.pkcs7")
# How further signatures and what belongs to them are called; the child lets nothing else of that name pass.
_HARMLESS: Final = frozenset({"none", "lta_updates", "form_filling"})
_PROVEN: Final = {text: proof for proof, text in PROOFS.items()}

_EXPLAINED: Final = {
    Verdict.VALID: "every signature is intact, nothing was changed since, and this tenant vouches for all signers",
    Verdict.UNTRUSTED: "the signatures are intact, but another tenant or an unknown authority vouches for a signer",
    Verdict.MODIFIED: "something was added or changed after a signature that a further signature does not need",
    Verdict.TAMPERED: "the signed bytes are not those that were signed",
    Verdict.UNSIGNED: "nobody has signed it",
}


async def verify(press: Press, pdf: bytes, *, sha256: str, tenant: TenantId, organisation: str) -> Verification:
    """Look at a PDF, whoever it is from, for a tenant and its name.

    Raises:
        DocumentInvalid: it is no PDF. One that was signed and cannot be read any more is called tampered.
        DocumentTooComplex: reading it takes more than one document may; nothing is said of it.
        RateLimited, TimedOut: there is no room for it now.
        ExtraMissing: this installation cannot read PDFs.
    """
    try:
        found = await press.inspect(pdf, tenant=tenant)
    except DocumentInvalid as error:
        if not pdf.startswith(b"%PDF-") or _SIGNED.search(pdf) is None:
            raise
        return _verification(
            Verdict.TAMPERED, sha256, None, [], f"it was signed and is broken: {error.details['reason']}"
        )
    raw: list[dict[str, Any]] = found["signatures"]
    signatures = [_read(one, tenant, organisation) for one in raw]
    return _verification(_verdict(found, raw, signatures), sha256, found["pages"], signatures)


def _read(found: dict[str, Any], tenant: TenantId, organisation: str) -> FoundSignature:
    vouched = found.get("vouched")
    if vouched is None:
        return FoundSignature.model_validate(found)
    issuer = vouched["tenant"]
    # Before tenants had authorities, the installation's wrote the name of the tenant, which is never used again.
    ours = issuer == str(tenant) if issuer is not None else found["organisation"] == organisation
    return FoundSignature.model_validate(
        {
            **found,
            "authority": Voucher.THIS_TENANT if ours else Voucher.OTHER_TENANT,
            "trusted": ours,
            "verified_by": _PROVEN.get(found["proof"]),
        }
    )


def _verdict(whole: dict[str, Any], found: list[dict[str, Any]], signatures: list[FoundSignature]) -> Verdict:
    if not found:
        return Verdict.UNSIGNED
    if not all(one["intact"] for one in found) or not whole["stamped"]:
        return Verdict.TAMPERED
    harmless = all(one["later_changes"] in _HARMLESS and one["whole_revision"] and one["allowed"] for one in found)
    if not harmless or not whole["complete"]:
        return Verdict.MODIFIED
    return Verdict.VALID if all(one.trusted for one in signatures) else Verdict.UNTRUSTED


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
