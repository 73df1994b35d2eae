"""The process in which PDFs are taken apart: strangers wrote them, and a small file can ask for all of the memory.

What cannot be read is answered with `refused`, what is too much of a document with `exceeded`. A process that is out of
memory ends: the next document gets a fresh one.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# asn1crypto has no types.

import base64
import io
from typing import Any, Final, cast

from asn1crypto import keys, x509
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign import fields, signers
from pyhanko.sign.validation import (
    EmbeddedPdfSignature,
    PdfSignatureStatus,
    validate_pdf_signature,
    validate_pdf_timestamp,
)
from pyhanko.sign.validation.status import SignatureCoverageLevel
from pyhanko.stamp import TextStampStyle
from pyhanko_certvalidator import ValidationContext
from pyhanko_certvalidator.registry import SimpleCertificateStore

from dragoman.infra.frames import Tell, serve
from dragoman.services.signatures.changes import POLICY
from dragoman.services.signatures.marks import box

Json = dict[str, Any]
# Each revision is compared with each signature before it; twenty signers with their timestamps make sixty.
_MOST_REVISIONS: Final = 200
_MOST_SIGNATURES: Final = 100
# PDF allows pages of 3 to 14400 points.
_A4: Final = (595, 842)
_SMALLEST_PT, _LARGEST_PT, _DEEPEST_TREE = 3, 14_400, 50


def inspect(pdf: bytes, authority: bytes) -> Json:
    """What a PDF is, and what each of its signatures is worth."""
    reader = PdfFileReader(io.BytesIO(pdf))
    if reader.encrypted:
        return {"refused": "it is encrypted"}
    if (excess := _excess(reader)) is not None:
        return {"exceeded": excess}
    root = x509.Certificate.load(authority)
    now = ValidationContext(trust_roots=[root], allow_fetching=False)
    return {
        "pages": int(reader.root["/Pages"]["/Count"]),
        "form": _has_form(reader),
        "complete": _is_complete(reader, pdf),
        "stamped": all(_stamp_holds(stamp, now) for stamp in reader.embedded_timestamp_signatures),
        "signatures": [_signature(embedded, root) for embedded in reader.embedded_regular_signatures],
    }


def lay_out(pdf: bytes) -> Json:
    """Return how many pages a PDF has, and the size of the last one, where signatures go."""
    reader = PdfFileReader(io.BytesIO(pdf))
    return {"pages": int(reader.root["/Pages"]["/Count"]), "last_page": _last_page(reader)}


def sign(pdf: bytes, asked: Json) -> Json:
    """The same PDF with one more signature: everything that was there stays as it is, byte by byte."""
    writer = IncrementalPdfFileWriter(io.BytesIO(pdf))
    if writer.prev.encrypted:
        return {"refused": "it is encrypted"}
    if (excess := _excess(writer.prev)) is not None:
        return {"exceeded": excess}
    known = SimpleCertificateStore()
    for issuer in asked["issuers"]:
        known.register(x509.Certificate.load(_bytes(issuer)))
    signer = signers.SimpleSigner(
        signing_cert=x509.Certificate.load(_bytes(asked["certificate"])),
        signing_key=keys.PrivateKeyInfo.load(_bytes(asked["key"])),
        cert_registry=known,
    )
    count = len(writer.prev.embedded_signatures)
    name = f"Signature{count + 1}"
    metadata = signers.PdfSignatureMetadata(
        field_name=name,
        subfilter=fields.SigSeedSubFilter.PADES,
        md_algorithm="sha256",
        name=asked["name"],
        reason=asked["reason"],
    )
    # The built-in font knows Latin letters alone; the signature itself has the name as it is written.
    text = asked["mark"].encode("latin-1", "replace").decode("latin-1")
    signed = signers.PdfSigner(
        metadata,
        signer,
        stamp_style=TextStampStyle(stamp_text=text.replace("%", "%%"), border_width=1),
        new_field_spec=fields.SigFieldSpec(name, on_page=-1, box=box(count)),
    ).sign_pdf(writer)
    return {"pdf": base64.b64encode(signed.getvalue()).decode()}


def _excess(reader: PdfFileReader) -> str | None:
    """Say what there is too much of, before anything is compared."""
    if (revisions := reader.xrefs.total_revisions) > _MOST_REVISIONS:
        return f"it has {revisions} revisions, and at most {_MOST_REVISIONS} are read"
    if (signatures := len(reader.embedded_signatures)) > _MOST_SIGNATURES:
        return f"it has {signatures} signatures, and at most {_MOST_SIGNATURES} are read"
    return None


def _has_form(reader: PdfFileReader) -> bool:
    """Whether it has fields to fill in, signed ones apart, or a form in XML: what it says could change by itself."""
    if "/AcroForm" not in reader.root:
        return False
    form = reader.root["/AcroForm"]
    signed = {embedded.sig_field.container_ref for embedded in reader.embedded_signatures}
    found = [one.reference for one in form["/Fields"]] if "/Fields" in form else []
    return "/XFA" in form or any(one not in signed for one in found)


def _is_complete(reader: PdfFileReader, pdf: bytes) -> bool:
    """Whether nothing follows the last signature but whole revisions, which are then looked at one by one."""
    found = reader.embedded_signatures
    if not found:
        return True
    ranges = [cast("Any", one.byte_range) for one in found]
    end = max(int(one[2]) + int(one[3]) for one in ranges)
    tail = pdf[end:]
    revisions = reader.xrefs.total_revisions - 1 - max(one.signed_revision for one in found)
    return not tail.strip() or (
        revisions > 0 and tail.rstrip().endswith(b"%%EOF") and tail.count(b"startxref") == revisions
    )


def _last_page(reader: PdfFileReader) -> list[int]:
    """Return the width and the height of the last page in points, as it is shown; A4 where it has no sensible size."""
    try:
        page: Any = reader.find_page_for_modification(-1)[0].get_object()
        x1, y1, x2, y2 = (float(one) for one in _inherited(page, "/CropBox") or _inherited(page, "/MediaBox") or ())
        turned = int(_inherited(page, "/Rotate") or 0) % 180 != 0
    except (TypeError, ValueError, OverflowError):
        return list(_A4)
    width, height = round(abs(x2 - x1)), round(abs(y2 - y1))
    if not all(_SMALLEST_PT <= side <= _LARGEST_PT for side in (width, height)):
        return list(_A4)
    return [height, width] if turned else [width, height]


def _inherited(page: Any, name: str) -> Any:
    """Return a property of a page, or of the nearest node above it that has it."""
    for _ in range(_DEEPEST_TREE):
        if name in page:
            return page[name]
        if "/Parent" not in page:
            break
        page = page["/Parent"]
    return None


def _stamp_holds(stamp: EmbeddedPdfSignature, trusted: ValidationContext) -> bool:
    """Whether a document timestamp is one; who vouches for its clock is another matter."""
    try:
        status = validate_pdf_timestamp(stamp, trusted, diff_policy=POLICY)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - of a file that anybody may have written
        return False
    return bool(status.intact and status.valid) and _padded(stamp)


def _signature(embedded: EmbeddedPdfSignature, root: x509.Certificate) -> Json:
    try:
        # Certificates are short-lived, and their keys are forgotten: what counts is when they signed.
        at = embedded.self_reported_timestamp
        moment = at if at is not None and at.utcoffset() is not None else None
        context = ValidationContext(trust_roots=[root], moment=moment, allow_fetching=False)
        status = validate_pdf_signature(embedded, context, diff_policy=POLICY)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - of a file that anybody may have written
        return {"field": str(embedded.field_name), "intact": False, "problem": f"{type(error).__name__}: {error}"[:300]}
    return {
        "field": str(embedded.field_name),
        "intact": bool(status.intact and status.valid) and _padded(embedded),
        "vouched": _vouched(status),
        "whole_revision": status.coverage is not None and status.coverage >= SignatureCoverageLevel.ENTIRE_REVISION,
        "later_changes": status.modification_level.name.lower() if status.modification_level is not None else "other",
        "allowed": bool(status.docmdp_ok),
        "format": str(embedded.sig_object.get("/SubFilter", "")),
        "reason": str(embedded.sig_object.get("/Reason", "")) or None,
        "signed_at": status.signer_reported_dt.isoformat() if status.signer_reported_dt is not None else None,
        **_holder(status),
    }


def _vouched(status: PdfSignatureStatus) -> Json | None:
    """Return the tenant whose authority issued the certificate; none where the installation once did so itself."""
    path = status.validation_path
    if not status.trusted or path is None:
        return None
    issuers = [one for one in path.iter_certs(include_root=False) if one.ca]
    return {"tenant": issuers[0].subject.native.get("serial_number") if issuers else None}


def _padded(embedded: EmbeddedPdfSignature) -> bool:
    """Whether nothing but padding follows the signature in the one place that no signature covers."""
    content = bytes(embedded.pkcs7_content)
    return not any(content[_der_length(content) :])


def _der_length(content: bytes) -> int:
    """Bytes of the first DER value: tag, length and value."""
    if content[1] < 0x80:
        return 2 + content[1]
    width = content[1] & 0x7F
    return 2 + width + int.from_bytes(content[2 : 2 + width], "big")


def _holder(status: PdfSignatureStatus) -> Json:
    certificate = status.signing_cert
    subject = certificate.subject.native
    alternative = cast("Any", certificate.subject_alt_name_value)
    emails = [str(one.native) for one in alternative or () if one.name == "rfc822_name"]
    return {
        "signer": subject.get("common_name"),
        "organisation": subject.get("organization_name"),
        "proof": subject.get("organizational_unit_name"),
        "email": emails[0] if emails else None,
        "issuer": certificate.issuer.human_friendly,
        "certificate_sha256": certificate.sha256.hex(),
    }


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def answer(asked: Json, _: Tell) -> Json:
    """Sign or inspect, whatever the PDF is."""
    pdf = _bytes(asked["pdf"])
    try:
        if asked["do"] == "sign":
            return sign(pdf, asked)
        return lay_out(pdf) if asked["do"] == "lay out" else inspect(pdf, _bytes(asked["authority"]))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - of a file that anybody may have written
        return {"refused": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    serve(answer)
