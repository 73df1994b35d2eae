import base64
import hmac
import json
from typing import Any
from uuid import UUID

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.services.audit.chain import (
    ChainCheck,
    Entry,
    Head,
    genesis,
    key_id,
    link,
)
from dragoman.services.audit.ed25519 import verify_signature
from dragoman.services.audit.export_file import Unreadable, check_export
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.trail import Entry as Ended
from dragoman.services.audit.trail import encode, shown
from tests.services.audit.ledger import run_verifier

TENANT = UUID(int=7)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
ORDER = 2**252 + 27742317777372353535851937790883648493

# RFC 8032, section 7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]

hostile = st.lists(
    st.text(max_size=5)
    | st.sampled_from(["\ud800", "\udfff", "\ud83d\ude00", "\0", "\x1f", "\x7f", "\u2028", '\\"', "é"])
).map("".join)


def caller(subject: str = "ada") -> Caller:
    return Caller(TenantId(TENANT), "acme", subject, PrincipalType.USER, frozenset({Role.VIEWER}), "c", 0.0)


def export(count: int) -> list[dict[str, Any]]:
    """A chain as a server exports it."""
    rows: list[dict[str, Any]] = [{"type": "export", "tenant": str(TENANT), "public_key": PUBLIC.hex()}]
    last = genesis(TENANT)
    for seq in range(1, count + 1):
        record_id = UUID(int=1000 + seq)
        body = encode(record_id, caller(), Ended("key.create", Outcome.DONE))
        mac = hmac.digest(b"key", body, "sha256")
        last = link(last, seq, record_id, body, mac)
        rows.append(
            {"type": "record", "seq": seq, "id": str(record_id), "body": base64.b64encode(body).decode(),
             "mac": mac.hex(), "hash": last.hex()}
        )  # fmt: skip
    unsigned = Head(TENANT, count, last, "2026-11-15T12:00:00.000000+00:00", key_id(PUBLIC), b"")
    signed = unsigned.to_json() | {"signature": KEY.sign(unsigned.signed_bytes()).hex()}
    return [*rows, {"type": "head", **signed}]


def check(rows: list[dict[str, Any]], *trusted: Head) -> ChainCheck:
    lines = [json.dumps(row).encode() for row in rows]
    return check_export(lines, public_key=PUBLIC, trusted=list(trusted)).chain


@pytest.mark.parametrize(("public_key", "message", "signature"), VECTORS)
def test_signatures_of_the_standard_are_accepted(public_key: str, message: str, signature: str) -> None:
    assert verify_signature(bytes.fromhex(public_key), bytes.fromhex(message), bytes.fromhex(signature))


@settings(deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), message=st.binary(max_size=50), flipped=st.integers(0, 64 * 8 - 1))
def test_the_verifier_agrees_with_the_library(seed: bytes, message: bytes, flipped: int) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes_raw()
    signature = key.sign(message)
    changed = (int.from_bytes(signature, "little") ^ (1 << flipped)).to_bytes(64, "little")

    assert verify_signature(public, message, signature)
    assert not verify_signature(public, message + b"!", signature)
    assert verify_signature(public, message, changed) == accepted_by_library(public, message, changed) is False


def accepted_by_library(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_a_second_form_of_a_signature_and_points_off_the_curve_are_refused() -> None:
    signature = KEY.sign(b"head")
    malleable = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    not_reduced = (2**255 - 19 + 1).to_bytes(32, "little")
    off_curve = (2).to_bytes(32, "little")

    assert not verify_signature(PUBLIC, b"head", malleable)
    for point in (not_reduced, off_curve, b"\xff" * 32):
        assert not verify_signature(point, b"head", signature)
        assert not verify_signature(PUBLIC, b"head", point + signature[32:])
    assert not verify_signature(PUBLIC[:31], b"head", signature)
    assert not verify_signature(PUBLIC, b"head", signature[:63])


def test_an_untouched_export_fits() -> None:
    found = check(export(5))

    assert (found.seq, found.problems) == (5, [])


@settings(deadline=None)
@given(st.data())
def test_any_single_change_of_an_export_is_found(data: st.DataObject) -> None:
    rows = export(data.draw(st.integers(1, 6)))
    at = data.draw(st.integers(0, len(rows) - 1))
    match data.draw(st.sampled_from(["edit", "delete", "repeat", "swap"])):
        case "edit":
            field = data.draw(st.sampled_from(sorted(set(rows[at]))))
            rows[at] = rows[at] | {field: edited(data, rows[at][field])}
        case "delete":
            del rows[at]
        case "repeat":
            rows.insert(at, rows[at])
        case _:
            other = data.draw(st.integers(0, len(rows) - 1).filter(lambda place: place != at))
            rows[at], rows[other] = rows[other], rows[at]

    try:
        found = check(rows).broken > 0
    except Unreadable:
        found = True

    assert found


def edited(data: st.DataObject, value: Any) -> Any:
    if isinstance(value, int):
        return data.draw(st.integers().filter(lambda new: new != value))
    # Not the last few: there base64 has bits that mean nothing.
    place = data.draw(st.integers(0, max(0, len(value) - 5)))
    character = data.draw(st.sampled_from("0123456789abcdef").filter(lambda new: new != value[place]))
    return value[:place] + character + value[place + 1 :]


def test_a_link_before_the_first_does_not_belong() -> None:
    found = ChainCheck(TENANT)

    found.follow(Entry(0, UUID(int=1), b"", b"", b""))

    assert [problem.seq for problem in found.problems] == [0]


def test_two_trusted_heads_of_one_number_are_both_held_against_the_chain() -> None:
    rows = export(3)
    true = Head.from_json(rows[-1])
    forked = Head(TENANT, 3, b"f" * 32, true.sealed_at, true.key_id, b"")
    forked = Head(TENANT, 3, forked.hash, true.sealed_at, true.key_id, KEY.sign(forked.signed_bytes()))

    assert [problem.reason.partition(":")[0] for problem in check(rows, true, forked).problems] == [
        "the chain was rewritten"
    ]


def test_a_trusted_head_that_nobody_signed_speaks_against_itself() -> None:
    rows = export(3)
    unsigned = Head(TENANT, 9, b"f" * 32, "", key_id(PUBLIC), b"s" * 64)

    assert check(rows, unsigned).problems[0].reason.startswith("a head kept outside was changed")


def test_an_export_with_nothing_in_it_and_a_head_elsewhere_was_cut() -> None:
    rows = export(3)

    assert check(rows[:1]).broken == 0
    assert check(rows[:1], Head.from_json(rows[-1])).broken == 1


@settings(deadline=None)
@given(subject=hostile, reason=hostile)
def test_a_record_is_canonical_json_whatever_is_in_it(subject: str, reason: str) -> None:
    body = encode(UUID(int=1), caller(subject), Ended("key.create", Outcome.FAILED, reason=reason))

    assert rfc8785.dumps(json.loads(body)) == body
    assert "\0" not in shown(body).subject


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 3: "),
        (b"[]", "line 3: it is not a JSON object"),
        (b"\xff\xfe", "line 3: "),
        (b'{"type": "record"}', "line 3: mac is missing"),
        (b'{"type": "record", "seq": -1, "mac": "", "body": ""}', "line 3: seq is missing or is not"),
        (b'{"type": "gossip"}', "line 3: its type is neither record nor head"),
        (b'{"type": "head", "tenant": "x"}', "line 3: "),
        (b"[" * 100_000, "line 3: "),
    ],
)
def test_a_malformed_line_is_named_without_a_traceback(line: bytes, complaint: str) -> None:
    lines = [json.dumps(row).encode() for row in export(1)]

    done = run_verifier("-", given=b"\n".join([*lines[:2], line]))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cannot read -: {complaint}")


def test_wrong_arguments_are_named_without_a_traceback() -> None:
    assert run_verifier("/nowhere").stderr.startswith("cannot read /nowhere: ")
    assert run_verifier("-", given=b"").stderr.startswith("cannot read -: line 1: this is not an audit export")
    assert "64 hex digits" in run_verifier("-", "--public-key", "zz", given=b"").stderr
    assert {run_verifier("/nowhere").returncode, run_verifier("-", "--public-key", "zz", given=b"").returncode} == {2}
