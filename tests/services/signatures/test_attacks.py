"""The published attacks on signed PDFs, each before and after the attacker adds a good signature of their own.

Incremental saving, signature wrapping and universal forgery: Mladenov et al., "1 Trillion Dollar Refund" (2019).
Shadow attacks: Mainka et al. (2021). Evil annotation and sneaky signature: Rohlmann et al. (2021).
"""

import asyncio
import hashlib
import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import typst
from asn1crypto import keys as asn1_keys
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.generic import pdf_name
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.sign import fields, signers
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper
from pyhanko.sign.validation.dss import DocumentSecurityStore
from pyhanko.stamp import TextStampStyle
from pyhanko_certvalidator.registry import SimpleCertificateStore

from dragoman.context import TenantId
from dragoman.services.signatures.certificates import CertificateAuthority, Holder
from dragoman.services.signatures.models import Verdict, Verification
from dragoman.services.signatures.press import Mark, Press
from dragoman.services.signatures.verification import verify

NOW = datetime.now(UTC)
TENANT = TenantId(UUID(int=1))
OURS = CertificateAuthority(ec.generate_private_key(ec.SECP256R1()))
AUTHORITY = OURS.of_tenant(TENANT, "acme")
REFUSED = {Verdict.MODIFIED, Verdict.TAMPERED}
Attack = Callable[[bytes], bytes]


class Lab:
    """Signs and verifies with one press."""

    def __init__(self, runner: asyncio.Runner, press: Press) -> None:
        self._runner = runner
        self._press = press

    def sign(self, pdf: bytes, name: str = "Ada") -> bytes:
        identity = AUTHORITY.issue(Holder(name, f"{name.lower()}@example.com"), at=NOW)
        return self._runner.run(
            self._press.sign(pdf, identity, Mark(name, "I agree", f"Signed by {name}"), tenant=TENANT)
        )

    def verify(self, pdf: bytes) -> Verification:
        return self._runner.run(
            verify(self._press, pdf, sha256=hashlib.sha256(pdf).hexdigest(), tenant=TENANT, organisation="acme")
        )


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    press = Press(OURS)
    with asyncio.Runner() as runner:
        yield Lab(runner, press)
        runner.run(press.stop())


@pytest.fixture(scope="module")
def signed(lab: Lab) -> bytes:
    """A contract with a link, a form field that says the price, and Ada's signature."""
    return lab.sign(with_price(typst.compile(b'= NDA\n\n#link("https://acme.example")[Acme] and Beta.')))


def with_price(pdf: bytes) -> bytes:
    """Return the PDF with a form of one field."""
    writer = IncrementalPdfFileWriter(io.BytesIO(pdf))
    field = writer.add_object(
        generic.DictionaryObject(
            {
                pdf_name("/FT"): pdf_name("/Tx"), pdf_name("/T"): generic.pdf_string("price"),
                pdf_name("/V"): generic.pdf_string("EUR 1000"), pdf_name("/DA"): generic.pdf_string("/Helv 12 Tf"),
                pdf_name("/Type"): pdf_name("/Annot"), pdf_name("/Subtype"): pdf_name("/Widget"),
                pdf_name("/Rect"): _numbers(100, 500, 300, 520),
                pdf_name("/AP"): generic.DictionaryObject({pdf_name("/N"): writer.add_object(_drawing("EUR 1000"))}),
            }
        )
    )  # fmt: skip
    font = generic.DictionaryObject({pdf_name("/Helv"): writer.add_object(_font("/Helvetica"))})
    writer.root["/AcroForm"] = writer.add_object(
        generic.DictionaryObject(
            {
                pdf_name("/Fields"): generic.ArrayObject([field]),
                pdf_name("/DR"): generic.DictionaryObject({pdf_name("/Font"): font}),
            }
        )
    )
    writer.update_root()
    writer.register_annotation(writer.find_page_for_modification(0)[0], field)
    return _written(writer)


def _numbers(*values: int) -> generic.ArrayObject:
    return generic.ArrayObject(map(generic.NumberObject, values))


def _drawing(text: str) -> generic.StreamObject:
    return generic.StreamObject(
        {
            pdf_name("/Type"): pdf_name("/XObject"), pdf_name("/Subtype"): pdf_name("/Form"),
            pdf_name("/BBox"): _numbers(0, 0, 200, 20),
        },
        stream_data=f"BT /Helv 12 Tf ({text}) Tj ET".encode(),
    )  # fmt: skip


def _font(name: str) -> generic.DictionaryObject:
    return generic.DictionaryObject(
        {
            pdf_name("/Type"): pdf_name("/Font"), pdf_name("/Subtype"): pdf_name("/Type1"),
            pdf_name("/BaseFont"): pdf_name(name),
        }
    )  # fmt: skip


def _written(writer: IncrementalPdfFileWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _edit(change: Callable[[IncrementalPdfFileWriter], None]) -> Attack:
    """Append a revision with one change."""

    def attack(pdf: bytes) -> bytes:
        writer = IncrementalPdfFileWriter(io.BytesIO(pdf))
        change(writer)
        return _written(writer)

    return attack


def _page(writer: IncrementalPdfFileWriter) -> generic.DictionaryObject:
    reference: Any = writer.find_page_for_modification(0)[0]
    writer.mark_update(reference)
    return reference.get_object()


def _replace_the_page(writer: IncrementalPdfFileWriter) -> None:
    _page(writer)["/Contents"] = writer.add_object(generic.StreamObject(stream_data=b"BT (EUR 9) Tj ET"))


def _draw_over_the_page(writer: IncrementalPdfFileWriter) -> None:
    over = generic.StreamObject(stream_data=b"1 g 0 0 600 800 re f")
    writer.add_stream_to_page(0, writer.add_object(over))


def _replace_the_page_tree(writer: IncrementalPdfFileWriter) -> None:
    page = generic.DictionaryObject(
        {
            pdf_name("/Type"): pdf_name("/Page"), pdf_name("/MediaBox"): _numbers(0, 0, 600, 800),
            pdf_name("/Resources"): generic.DictionaryObject(),
        }
    )  # fmt: skip
    pages = generic.DictionaryObject(
        {pdf_name("/Type"): pdf_name("/Pages"), pdf_name("/Count"): generic.NumberObject(1)}
    )
    pages["/Kids"] = generic.ArrayObject([writer.add_object(page)])
    writer.root["/Pages"] = writer.add_object(pages)
    writer.update_root()


def _add_a_page(writer: IncrementalPdfFileWriter) -> None:
    writer.insert_page(
        generic.DictionaryObject(
            {
                pdf_name("/Type"): pdf_name("/Page"), pdf_name("/MediaBox"): _numbers(0, 0, 600, 800),
                pdf_name("/Resources"): generic.DictionaryObject(),
                pdf_name("/Contents"): writer.add_object(generic.StreamObject(stream_data=b"BT (more) Tj ET")),
            }
        )
    )  # fmt: skip


def _price(writer: IncrementalPdfFileWriter) -> generic.DictionaryObject:
    field = writer.root["/AcroForm"]["/Fields"].raw_get(0)
    writer.mark_update(field.reference)
    return field.get_object()


def _fill_in_another_price(writer: IncrementalPdfFileWriter) -> None:
    field = _price(writer)
    field["/V"] = generic.pdf_string("EUR 9000000")
    field["/AP"] = generic.DictionaryObject({pdf_name("/N"): writer.add_object(_drawing("EUR 9000000"))})


def _draw_another_price(writer: IncrementalPdfFileWriter) -> None:
    _price(writer)["/AP"] = generic.DictionaryObject({pdf_name("/N"): writer.add_object(_drawing("EUR 9000000"))})


def _redraw_the_price_in_place(writer: IncrementalPdfFileWriter) -> None:
    appearance = writer.root["/AcroForm"]["/Fields"][0]["/AP"].raw_get("/N")
    writer.mark_update(appearance.reference)
    appearance.get_object()._data = b"BT /Helv 12 Tf (EUR 9000000) Tj ET"
    appearance.get_object()._encoded_data = None


def _hide_the_price(writer: IncrementalPdfFileWriter) -> None:
    _price(writer)["/F"] = generic.NumberObject(2)


def _move_the_price(writer: IncrementalPdfFileWriter) -> None:
    _price(writer)["/Rect"] = _numbers(900, 900, 901, 901)


def _form(writer: IncrementalPdfFileWriter) -> generic.DictionaryObject:
    form: Any = writer.root.raw_get("/AcroForm")
    writer.mark_update(form.reference)
    return form.get_object()


def _replace_the_font_of_the_form(writer: IncrementalPdfFileWriter) -> None:
    _form(writer)["/DR"]["/Font"]["/Helv"] = writer.add_object(_font("/Wingdings"))


def _redefine_the_font_in_place(writer: IncrementalPdfFileWriter) -> None:
    font = writer.root["/AcroForm"]["/DR"]["/Font"].raw_get("/Helv")
    writer.mark_update(font.reference)
    font.get_object()["/BaseFont"] = pdf_name("/Wingdings")


def _have_readers_draw_the_fields(writer: IncrementalPdfFileWriter) -> None:
    _form(writer)["/NeedAppearances"] = generic.BooleanObject(True)


def _add_a_field(writer: IncrementalPdfFileWriter) -> None:
    field = generic.DictionaryObject(
        {
            pdf_name("/FT"): pdf_name("/Tx"), pdf_name("/T"): generic.pdf_string("discount"),
            pdf_name("/V"): generic.pdf_string("100 %"), pdf_name("/Type"): pdf_name("/Annot"),
            pdf_name("/Subtype"): pdf_name("/Widget"), pdf_name("/Rect"): _numbers(10, 10, 90, 30),
        }
    )  # fmt: skip
    reference = writer.add_object(field)
    _form(writer)["/Fields"].append(reference)
    writer.register_annotation(writer.find_page_for_modification(0)[0], reference)


def _remove_the_field(writer: IncrementalPdfFileWriter) -> None:
    del _form(writer)["/Fields"][0]


def _annotate(subtype: str) -> Callable[[IncrementalPdfFileWriter], None]:
    def change(writer: IncrementalPdfFileWriter) -> None:
        note = generic.DictionaryObject(
            {
                pdf_name("/Type"): pdf_name("/Annot"), pdf_name("/Subtype"): pdf_name(subtype),
                pdf_name("/Rect"): _numbers(100, 500, 300, 520), pdf_name("/Contents"): generic.pdf_string("EUR 9"),
                pdf_name("/AP"): generic.DictionaryObject({pdf_name("/N"): writer.add_object(_drawing("EUR 9"))}),
            }
        )  # fmt: skip
        writer.register_annotation(writer.find_page_for_modification(0)[0], writer.add_object(note))

    return change


def _turn_a_link(writer: IncrementalPdfFileWriter) -> None:
    annotations = _page(writer)["/Annots"]
    link = next(one for one in annotations if one.get_object()["/Subtype"] == "/Link")
    writer.mark_update(link.reference)
    link.get_object()["/Rect"] = _numbers(0, 0, 600, 800)


def _run_a_script(writer: IncrementalPdfFileWriter) -> None:
    writer.root["/OpenAction"] = generic.DictionaryObject(
        {pdf_name("/S"): pdf_name("/JavaScript"), pdf_name("/JS"): generic.pdf_string("this.getField('price')")}
    )
    writer.update_root()


def _hide_a_layer(writer: IncrementalPdfFileWriter) -> None:
    writer.root["/OCProperties"] = generic.DictionaryObject(
        {pdf_name("/OCGs"): generic.ArrayObject(), pdf_name("/D"): generic.DictionaryObject()}
    )
    writer.update_root()


def _sign_across_the_text(pdf: bytes) -> bytes:
    """A signature by us, as a member of the tenant could have it made, with a mark that covers the price."""
    identity = AUTHORITY.issue(Holder("Mallory", "mallory@example.com"), at=NOW)
    signer = signers.SimpleSigner(
        signing_cert=asn1_x509.Certificate.load(identity.certificate),
        signing_key=asn1_keys.PrivateKeyInfo.load(identity.key),
        cert_registry=SimpleCertificateStore(),
    )
    return (
        signers.PdfSigner(
            signers.PdfSignatureMetadata(field_name="Sneaky", subfilter=fields.SigSeedSubFilter.PADES),
            signer,
            stamp_style=TextStampStyle(stamp_text="EUR 9000000"),
            new_field_spec=fields.SigFieldSpec("Sneaky", on_page=0, box=(100, 500, 300, 520)),
        )
        .sign_pdf(IncrementalPdfFileWriter(io.BytesIO(pdf)))
        .getvalue()
    )


def _append_without_a_table(pdf: bytes) -> bytes:
    """Objects behind the end, which lenient readers find by looking for them."""
    return pdf + b"\n4 0 obj\n<</Length 8>>\nstream\nBT ET   \nendstream\nendobj\n%%EOF\n"


def _append_with_a_bare_trailer(pdf: bytes) -> bytes:
    root = re.findall(rb"/Root (\d+) 0 R", pdf)
    number = root[-1].decode() if root else "1"
    return pdf + f"\n4 0 obj\n<<>>\nendobj\ntrailer\n<</Root {number} 0 R>>\n%%EOF\n".encode()


def _wrap(pdf: bytes) -> bytes:
    """Move the second signed part to the end and put other objects where it was."""
    found = re.search(rb"/ByteRange \[(\d+) (\d+) (\d+) (\d+)\s*\]", pdf)
    assert found is not None
    _, first, second, length = map(int, found.groups())
    evil = b"\n4 0 obj\n<<>>\nendobj\n"
    moved = pdf[:second] + evil + pdf[second : second + length]
    old = found.group(0)
    new = f"/ByteRange [0 {first} {second + len(evil)} {length}]".encode().ljust(len(old))
    return moved.replace(old, new[: len(old)], 1)


def _rewrite(pattern: bytes, by: bytes) -> Attack:
    """Replace what matches by something of the same length, so that every offset still holds."""

    def attack(pdf: bytes) -> bytes:
        return re.sub(pattern, lambda match: by.ljust(len(match.group(0))), pdf, count=1)

    return attack


APPENDED: dict[str, Attack] = {
    "incremental saving: another page content": _edit(_replace_the_page),
    "incremental saving: something drawn over the page": _edit(_draw_over_the_page),
    "incremental saving: one more page": _edit(_add_a_page),
    "incremental saving: a script": _edit(_run_a_script),
    "shadow: another page tree": _edit(_replace_the_page_tree),
    "shadow: a layer": _edit(_hide_a_layer),
    "shadow: another font for the form": _edit(_replace_the_font_of_the_form),
    "shadow: the font redefined": _edit(_redefine_the_font_in_place),
    "shadow: readers draw the fields anew": _edit(_have_readers_draw_the_fields),
    "form: another value": _edit(_fill_in_another_price),
    "form: another appearance": _edit(_draw_another_price),
    "form: the appearance redrawn": _edit(_redraw_the_price_in_place),
    "form: a hidden field": _edit(_hide_the_price),
    "form: a moved field": _edit(_move_the_price),
    "form: one more field": _edit(_add_a_field),
    "form: one field less": _edit(_remove_the_field),
    "annotation: text": _edit(_annotate("/FreeText")),
    "annotation: a stamp": _edit(_annotate("/Stamp")),
    "annotation: a redaction": _edit(_annotate("/Redact")),
    "annotation: a link over the whole page": _edit(_turn_a_link),
    "sneaky signature: a mark over the text": _sign_across_the_text,
}
BROKEN: dict[str, Attack] = {
    "incremental saving: no cross-reference table": _append_without_a_table,
    "incremental saving: a bare trailer": _append_with_a_bare_trailer,
    "wrapping: the signed bytes moved": _wrap,
    "forgery: no signature value": _rewrite(rb"/Contents <[0-9a-fA-F]+>", b"/Contents <00>"),
    "forgery: a null signature value": _rewrite(rb"/Contents <[0-9a-fA-F]+>", b"/Contents null"),
    "forgery: no byte range": _rewrite(rb"/ByteRange \[[\d ]+\]", b""),
    "forgery: a null byte range": _rewrite(rb"/ByteRange \[[\d ]+\]", b"/ByteRange null"),
    "forgery: an empty byte range": _rewrite(rb"/ByteRange \[[\d ]+\]", b"/ByteRange [0 0 0 0]"),
    "forgery: a negative byte range": _rewrite(rb"/ByteRange \[[\d ]+\]", b"/ByteRange [0 -1 2 -1]"),
    "forgery: a part of the byte range": _rewrite(rb"/ByteRange \[[\d ]+\]", b"/ByteRange [0 900]"),
}


@pytest.mark.parametrize("attack", APPENDED)
def test_a_change_after_a_signature_is_refused_even_when_a_good_signature_follows(
    lab: Lab, signed: bytes, attack: str
) -> None:
    before = lab.verify(signed).verdict

    attacked = APPENDED[attack](signed)
    verdicts = [lab.verify(attacked).verdict, lab.verify(lab.sign(attacked, "Mallory")).verdict]

    assert (before, set(verdicts) <= REFUSED) == (Verdict.VALID, True), verdicts


@pytest.mark.parametrize("attack", BROKEN)
def test_a_signature_that_was_taken_apart_is_refused(lab: Lab, signed: bytes, attack: str) -> None:
    assert lab.verify(BROKEN[attack](signed)).verdict in REFUSED


def test_further_signatures_and_timestamps_and_the_security_store_may_follow(lab: Lab, signed: bytes) -> None:
    """What keeps a signature verifiable for long is added later, and changes nothing that was signed."""
    twice = lab.sign(signed, "Bob")
    authority = asn1_x509.Certificate.load(OURS.certificate)
    stored = io.BytesIO(twice)
    DocumentSecurityStore.add_dss(output_stream=stored, sig_contents=None, certs=[authority])
    stamped = signers.PdfTimeStamper(_clock()).timestamp_pdf(IncrementalPdfFileWriter(stored), "sha256").getvalue()

    verdicts = [lab.verify(pdf).verdict for pdf in (twice, stored.getvalue(), stamped, lab.sign(stamped, "Cleo"))]

    assert verdicts == [Verdict.VALID] * 4


def _clock() -> DummyTimeStamper:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Clock")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return DummyTimeStamper(
        asn1_x509.Certificate.load(certificate.public_bytes(serialization.Encoding.DER)),
        asn1_keys.PrivateKeyInfo.load(plain),
    )
