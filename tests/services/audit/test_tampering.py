"""Someone with all rights in the database, but without the keys, changes what was recorded: who finds it, and where?"""

import hashlib
import hmac
import json
from typing import Any
from uuid import UUID

import pytest

from dragoman.infra.ids import new_id
from dragoman.services.audit.chain import genesis, link
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.trail import Entry, encode, shown
from tests.harness import Server
from tests.services.audit.ledger import Ledger, run_verifier

THIRD = "(SELECT record_id FROM audit_links WHERE tenant_id = $1 AND seq = 3)"
BOTH = "(SELECT record_id FROM audit_links WHERE tenant_id = $1 AND seq IN (3, 4))"
EDITS = {
    "a body is edited": f"""UPDATE audit_records SET body = convert_to(replace(convert_from(body, 'UTF8'),
        '"admin"', '"nobody"'), 'UTF8') WHERE tenant_id = $1 AND id = {THIRD}""",
    "a MAC is edited": f"UPDATE audit_records SET mac = sha256(mac) WHERE tenant_id = $1 AND id = {THIRD}",
    "a record is deleted": f"DELETE FROM audit_records WHERE tenant_id = $1 AND id = {THIRD}",
    "a link is deleted": "DELETE FROM audit_links WHERE tenant_id = $1 AND seq = 3",
    "a record is deleted with its link": f"""WITH gone AS (DELETE FROM audit_links WHERE tenant_id = $1 AND seq = 3)
        DELETE FROM audit_records WHERE tenant_id = $1 AND id = {THIRD}""",
    "a hash is edited": "UPDATE audit_links SET hash = sha256(hash) WHERE tenant_id = $1 AND seq = 3",
    "two records are swapped": f"""UPDATE audit_records a SET body = b.body, mac = b.mac FROM audit_records b
        WHERE a.tenant_id = $1 AND b.tenant_id = $1 AND a.id IN {BOTH} AND b.id IN {BOTH} AND a.id <> b.id""",
    "a record is given to another tenant": f"""UPDATE audit_records SET tenant_id = gen_random_uuid()
        WHERE tenant_id = $1 AND id = {THIRD}""",
}


@pytest.fixture
def ledger(server: Server) -> Ledger:
    """Six sealed records, with a head at the third."""
    made = Ledger(server)
    made.write(3)
    made.wait_sealed(3)
    made.write(3)
    made.wait_sealed(6)
    assert made.verify()["ok"]
    return made


def first_problem(ledger: Ledger) -> tuple[int, str]:
    report = ledger.verify()
    assert not report["ok"]
    return report["problems"][0]["seq"], report["problems"][0]["reason"]


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS.keys())
def test_the_broken_link_is_named_by_the_server_and_by_the_file_alone(ledger: Ledger, statement: str) -> None:
    ledger.sql(statement)

    assert first_problem(ledger)[0] == 3
    alone = ledger.verify_alone()
    assert alone.returncode == 1
    assert alone.stdout.startswith("BROKEN at link 3: ")


def test_the_command_names_the_broken_link_and_fails(ledger: Ledger) -> None:
    ledger.sql(EDITS["a body is edited"])

    done = ledger.verify_by_command()

    assert done.returncode == 1
    assert done.stdout.split()[:4] == ["BROKEN", "at", "link", "3:"]


@pytest.mark.parametrize(
    ("deleted", "link"),
    [("seq > 0", 6), ("seq > 3", 4)],
    ids=["every head", "all but an older head"],
)
def test_a_head_that_is_missing_or_too_old_is_found(ledger: Ledger, deleted: str, link: int) -> None:
    ledger.sql(f"DELETE FROM audit_heads WHERE tenant_id = $1 AND {deleted}")

    assert first_problem(ledger)[0] == link
    assert ledger.verify_alone().stdout.startswith(f"BROKEN at link {link}: ")


def test_an_empty_chain_with_its_heads_left_is_found(ledger: Ledger) -> None:
    ledger.sql("DELETE FROM audit_records WHERE tenant_id = $1")
    ledger.sql("DELETE FROM audit_links WHERE tenant_id = $1")

    assert first_problem(ledger)[0] == 1
    assert ledger.verify_alone().returncode == 1


def cut_after_three(ledger: Ledger) -> None:
    ledger.sql(
        "DELETE FROM audit_records WHERE tenant_id = $1 AND id IN "
        "(SELECT record_id FROM audit_links WHERE tenant_id = $1 AND seq > 3)"
    )
    ledger.sql("DELETE FROM audit_links WHERE tenant_id = $1 AND seq > 3")
    ledger.sql("DELETE FROM audit_heads WHERE tenant_id = $1 AND seq > 3")


def test_a_cut_at_the_end_is_found_by_the_heads_outside_and_by_nothing_else(ledger: Ledger) -> None:
    cut_after_three(ledger)

    seq, reason = first_problem(ledger)
    assert seq > 3
    assert "was cut" in reason
    assert ledger.verify_alone().returncode == 0
    much_later = ledger.verify_alone("--head", str(ledger.heads_file), made_at="2100-01-01T00:00:00Z")
    assert (much_later.returncode, "was cut" in much_later.stdout) == (1, True)


def test_a_head_that_is_newer_than_an_export_is_explained_and_is_no_error(ledger: Ledger) -> None:
    export = ledger.exported()
    ledger.write(2)
    ledger.wait_sealed(8)

    done = run_verifier(
        "-", "--public-key", ledger.public_key, "--head", str(ledger.heads_file),
        given=b"\n".join(json.dumps(line).encode() for line in export),
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "OK: 6 records" in done.stdout
    assert "a trusted head names link 8" in done.stdout
    assert "the chain went on since" in done.stdout


def test_a_cut_at_the_end_is_found_by_the_head_that_a_caller_kept(ledger: Ledger) -> None:
    head = ledger.verify()["head"]
    cut_after_three(ledger)
    lines = ledger.heads_file.read_text().splitlines(keepends=True)
    ledger.heads_file.write_text("".join(line for line in lines if str(ledger.tenant) not in line))
    assert ledger.verify()["ok"]

    report = ledger.verify(head={"seq": head["seq"], "hash": head["hash"]})

    assert [problem["seq"] for problem in report["problems"]] == [6]


def test_a_cut_that_new_records_have_grown_over_is_found(ledger: Ledger) -> None:
    cut_after_three(ledger)
    ledger.write(4)
    ledger.wait_sealed(7)

    seq, reason = first_problem(ledger)
    assert 4 <= seq <= 6
    assert "was rewritten" in reason


def test_a_cut_that_leaves_the_records_is_found_without_any_head_outside(ledger: Ledger) -> None:
    ledger.sql("DELETE FROM audit_links WHERE tenant_id = $1 AND seq > 3")
    ledger.sql("DELETE FROM audit_heads WHERE tenant_id = $1 AND seq > 3")

    reasons = [problem["reason"] for problem in ledger.verify()["problems"]]

    assert sum("lost its link" in reason for reason in reasons) == 3


def relink(ledger: Ledger, records: list[tuple[UUID, bytes, bytes]]) -> None:
    """What anyone can do who knows how hashes are made."""
    ledger.sql("DELETE FROM audit_links WHERE tenant_id = $1")
    last = genesis(ledger.tenant)
    for seq, (record_id, body, mac) in enumerate(records, 1):
        last = link(last, seq, record_id, body, mac)
        ledger.sql("INSERT INTO audit_links VALUES ($1, $2, $3, $4)", seq, record_id, last)
    ledger.sql("DELETE FROM audit_heads WHERE tenant_id = $1 AND seq > $2", len(records))
    ledger.sql("UPDATE audit_heads SET hash = $3 WHERE tenant_id = $1 AND seq = $2", len(records), last)


def stored(ledger: Ledger) -> list[tuple[UUID, bytes, bytes]]:
    rows = ledger.sql(
        "SELECT r.id, r.body, r.mac FROM audit_records r JOIN audit_links l ON l.record_id = r.id "
        "WHERE r.tenant_id = $1 ORDER BY l.seq"
    )
    return [(row["id"], row["body"], row["mac"]) for row in rows]


def test_a_chain_that_was_rewritten_with_right_hashes_lacks_the_signature(ledger: Ledger) -> None:
    """The strongest thing to do without keys: drop a record, and link the others anew."""
    records = stored(ledger)
    ledger.sql("DELETE FROM audit_records WHERE tenant_id = $1 AND id = $2", records[2][0])

    relink(ledger, records[:2] + records[3:])

    assert "was rewritten" in first_problem(ledger)[1]
    alone = ledger.verify_alone("--head", str(ledger.heads_file))
    assert alone.returncode == 1
    assert "BROKEN at link 3: the chain was rewritten" in alone.stdout
    assert ledger.verify_alone().returncode == 1


def test_a_record_that_was_rewritten_with_a_right_hash_lacks_the_mac(ledger: Ledger) -> None:
    records = stored(ledger)
    body = records[2][1].replace(b'"admin"', b'"nobody"')
    mac = hashlib.sha256(body).digest()
    ledger.sql(
        "UPDATE audit_records SET body = $3, mac = $4 WHERE tenant_id = $1 AND id = $2", records[2][0], body, mac
    )

    relink(ledger, [*records[:2], (records[2][0], body, mac), *records[3:]])

    assert first_problem(ledger)[0] == 3
    assert "head's signature" in ledger.verify_alone().stdout


def add_record(ledger: Ledger, record_id: UUID, body: bytes, mac: bytes) -> None:
    columns: list[Any] = [getattr(shown(body), name) for name in ("at", "operation", "outcome", "subject")]
    ledger.sql(
        "INSERT INTO audit_records (tenant_id, id, at, operation, outcome, subject, body, mac) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        record_id,
        *columns,
        body,
        mac,
    )


def test_a_record_that_was_forged_without_the_key_is_named(ledger: Ledger) -> None:
    forged = new_id()
    body = encode(forged, ledger.caller, Entry("key.create", Outcome.DONE))

    add_record(ledger, forged, body, hmac.digest(b"guessed", body, "sha256"))

    assert str(forged) in {problem["record_id"] for problem in ledger.verify()["problems"]}


def test_a_genuine_record_that_was_copied_under_another_id_is_named(ledger: Ledger) -> None:
    _, body, mac = stored(ledger)[2]
    copy = new_id()

    add_record(ledger, copy, body, mac)

    assert str(copy) in {problem["record_id"] for problem in ledger.verify()["problems"]}


def test_a_genuine_record_that_was_copied_to_another_tenant_is_named(ledger: Ledger, server: Server) -> None:
    record_id, body, mac = stored(ledger)[2]
    other = Ledger(server)

    add_record(other, record_id, body, mac)

    assert [problem["record_id"] for problem in other.verify()["problems"]] == [str(record_id)]


def test_a_whole_chain_under_another_tenant_is_broken_from_its_first_link(ledger: Ledger, server: Server) -> None:
    other = Ledger(server)
    for table in ("audit_records", "audit_links", "audit_heads"):
        ledger.sql(f"UPDATE {table} SET tenant_id = $2 WHERE tenant_id = $1", other.tenant)

    assert first_problem(other)[0] == 1
    assert other.verify_alone().stdout.startswith("BROKEN at link 1: ")


def test_a_listing_that_disagrees_with_its_record_is_named(ledger: Ledger) -> None:
    """The columns beside a body are for filters; changing one hides a record from a list, but not from verify."""
    ledger.sql(f"UPDATE audit_records SET subject = 'nobody' WHERE tenant_id = $1 AND id = {THIRD}")

    assert first_problem(ledger)[0] == 3


def test_a_published_head_that_was_edited_does_not_accuse_the_chain(ledger: Ledger) -> None:
    text = ledger.heads_file.read_text()
    [line] = [line for line in text.splitlines() if f'"{ledger.tenant}","seq":6,' in line]
    ledger.heads_file.write_text(text.replace(line, line.replace('"seq":6,', '"seq":60,')))

    assert first_problem(ledger) == (60, "a head kept outside was changed: its signature is not the key's")
