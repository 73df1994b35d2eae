"""The process in which PDFs are taken apart: strangers wrote them, and a small file can ask for all of the memory.

Frames go both ways: four bytes of length, then JSON. What cannot be read is answered with `refused`, and the end of the
input is the end of the process.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# asn1crypto has no types.

import base64
import io
import resource
import sys
from typing import Any, Final, cast

import orjson
from asn1crypto import keys, x509
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign import fields, signers
from pyhanko.sign.validation import EmbeddedPdfSignature, PdfSignatureStatus, validate_pdf_signature
from pyhanko.sign.validation.status import SignatureCoverageLevel
from pyhanko.stamp import TextStampStyle
from pyhanko_certvalidator import ValidationContext
from pyhanko_certvalidator.registry import SimpleCertificateStore

Json = dict[str, Any]
_MOST_MEMORY: Final = 1 << 30
# Marks stand in the lower margin of the last page, where a contract has nothing else.
_COLUMNS, _ROWS, _WIDTH, _HEIGHT, _GAP, _LEFT, _BOTTOM = 4, 2, 124, 26, 8, 36, 8


def inspect(pdf: bytes, authority: bytes) -> Json:
    """What a PDF is, and what each of its signatures is worth."""
    reader = PdfFileReader(io.BytesIO(pdf))
    if reader.encrypted:
        return {"refused": "it is encrypted"}
    found = reader.embedded_regular_signatures
    trusted = ValidationContext(trust_roots=[x509.Certificate.load(authority)], allow_fetching=False)
    return {
        "pages": int(reader.root["/Pages"]["/Count"]),
        "signatures": [_signature(embedded, trusted) for embedded in found],
    }


def sign(pdf: bytes, asked: Json) -> Json:
    """The same PDF with one more signature: everything that was there stays as it is, byte by byte."""
    writer = IncrementalPdfFileWriter(io.BytesIO(pdf))
    if writer.prev.encrypted:
        return {"refused": "it is encrypted"}
    known = SimpleCertificateStore()
    known.register(x509.Certificate.load(_bytes(asked["authority"])))
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
        new_field_spec=fields.SigFieldSpec(name, on_page=-1, box=_box(count)),
    ).sign_pdf(writer)
    return {"pdf": base64.b64encode(signed.getvalue()).decode()}


def _box(count: int) -> tuple[int, int, int, int] | None:
    row, column = divmod(count, _COLUMNS)
    if row >= _ROWS:
        return None
    left, bottom = _LEFT + column * (_WIDTH + _GAP), _BOTTOM + row * (_HEIGHT + _GAP)
    return left, bottom, left + _WIDTH, bottom + _HEIGHT


def _signature(embedded: EmbeddedPdfSignature, trusted: ValidationContext) -> Json:
    try:
        status = validate_pdf_signature(embedded, trusted)
    except Exception as error:  # noqa: BLE001 - of a file that anybody may have written
        return {"field": str(embedded.field_name), "intact": False, "problem": f"{type(error).__name__}: {error}"[:300]}
    return {
        "field": str(embedded.field_name),
        "intact": bool(status.intact and status.valid) and _padded(embedded),
        "trusted": bool(status.trusted),
        "whole_file": status.coverage == SignatureCoverageLevel.ENTIRE_FILE,
        "whole_revision": status.coverage is not None and status.coverage >= SignatureCoverageLevel.ENTIRE_REVISION,
        "later_changes": status.modification_level.name.lower() if status.modification_level is not None else "other",
        "allowed": bool(status.docmdp_ok),
        "format": str(embedded.sig_object.get("/SubFilter", "")),
        "reason": str(embedded.sig_object.get("/Reason", "")) or None,
        "signed_at": status.signer_reported_dt.isoformat() if status.signer_reported_dt is not None else None,
        **_holder(status),
    }


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
        "email": emails[0] if emails else None,
        "issuer": certificate.issuer.human_friendly,
        "certificate_sha256": certificate.sha256.hex(),
    }


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def _answer(asked: Json) -> Json:
    pdf = _bytes(asked["pdf"])
    try:
        return sign(pdf, asked) if asked["do"] == "sign" else inspect(pdf, _bytes(asked["authority"]))
    except MemoryError:
        return {"refused": "it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - of a file that anybody may have written
        return {"refused": f"{type(error).__name__}: {error}"[:300]}


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    frames, out = sys.stdin.buffer, sys.stdout.buffer
    while len(size := frames.read(4)) == 4:
        answer = orjson.dumps(_answer(orjson.loads(frames.read(int.from_bytes(size, "big")))))
        out.write(len(answer).to_bytes(4, "big") + answer)
        out.flush()


if __name__ == "__main__":
    main()
