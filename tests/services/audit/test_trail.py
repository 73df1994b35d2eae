import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.harness import Server, wait_for
from tests.services.audit.ledger import Ledger, run_sql, run_verifier


@pytest.fixture
def ledger(server: Server) -> Ledger:
    """A fresh tenant on the common server."""
    return Ledger(server)


def outcomes(ledger: Ledger) -> list[tuple[str, str, str | None]]:
    return [(record["operation"], record["outcome"], record["code"]) for record in ledger.records()]


def test_every_write_leaves_one_record(ledger: Ledger) -> None:
    ledger.write(2)

    assert outcomes(ledger) == [("key.create", "done", None)] * 2


def test_a_record_says_who_did_what_through_which_door(ledger: Ledger) -> None:
    made = ledger.client.post("/api/keys", json={"name": "nightly"}, headers={"x-correlation-id": "trace-7"})

    [record] = ledger.records()
    assert record["resource"] == made.json()["data"]["id"]
    assert (record["subject"], record["principal_type"], record["door"]) == ("admin", "user", "rest")
    assert record["request_id"] == made.headers["x-request-id"]
    assert len(record["input_sha256"]) == 64


def test_a_record_is_committed_by_the_transaction_of_its_operation(ledger: Ledger) -> None:
    ledger.write()

    [row] = ledger.sql(
        "SELECT k.xmin = r.xmin AS together FROM api_keys k JOIN audit_records r USING (tenant_id) WHERE tenant_id = $1"
    )
    assert row["together"] is True


def test_a_rolled_back_operation_leaves_a_failed_record_and_none_that_says_done(ledger: Ledger) -> None:
    person = {"email": "ada@example.com", "name": "Ada"}
    assert ledger.client.post("/api/users", json=person).status_code == 201

    again = ledger.client.post("/api/users", json=person)

    assert again.status_code == 409
    assert outcomes(ledger) == [("user.invite", "failed", again.json()["code"]), ("user.invite", "done", None)]


def test_a_refusal_is_recorded(ledger: Ledger) -> None:
    with ledger.server.client(ledger.server.token(role="viewer", tenant=ledger.slug, user="eve")) as viewer:
        assert viewer.post("/api/keys", json={"name": "sesame"}).status_code == 403

    assert outcomes(ledger) == [("key.create", "refused", "UNAUTHORIZED")]
    assert ledger.records()[0]["subject"] == "eve"


def test_a_read_leaves_no_record(ledger: Ledger) -> None:
    for path in ("/api/keys", "/api/users", "/api/me", "/api/audit", "/api/audit/export"):
        assert ledger.client.get(path).status_code == 200

    assert ledger.records() == []


def test_a_repeated_write_leaves_the_one_record_of_the_first(ledger: Ledger) -> None:
    for _ in range(2):
        ledger.client.post("/api/keys", json={"name": "once"}, headers={"idempotency-key": "k-1"}).raise_for_status()

    assert len(ledger.records()) == 1


def test_a_record_is_sealed_soon_after_it_is_written(ledger: Ledger) -> None:
    ledger.write()

    wait_for(lambda: ledger.records()[0]["seq"] == 1, "the seal")
    wait_for(lambda: ledger.verify()["trusted_heads"], "the head, which is kept once the seal is committed")
    assert ledger.verify() | {"head": {}} == {
        "ok": True,
        "records": 1,
        "unsealed": 0,
        "head": {},
        "public_key": ledger.public_key,
        "trusted_heads": 1,
        "problems": [],
        "rows": 0,
        "disagreements": [],
    }


def test_records_are_found_by_operation_subject_outcome_and_time(ledger: Ledger) -> None:
    ledger.write(2)
    ledger.client.post("/api/users", json={"email": "ada@example.com", "name": "Ada"}).raise_for_status()
    now = datetime.now(UTC)

    def count(**filters: Any) -> int:
        return len(ledger.records(**filters))

    assert count(operation="key.create") == 2
    assert count(operation="user.invite", outcome="done", subject="admin") == 1
    assert count(subject="nobody") == count(outcome="refused") == 0
    assert count(since=(now - timedelta(minutes=5)).isoformat()) == 3
    assert count(since=(now + timedelta(minutes=5)).isoformat()) == 0
    assert count(until=(now - timedelta(minutes=5)).isoformat()) == 0
    assert count(since="0001-01-01T00:00:00Z", until="9999-12-31T23:59:59Z") == 3


def test_a_record_that_was_made_unreadable_does_not_hide_the_others(ledger: Ledger) -> None:
    ledger.write(3)
    ledger.wait_sealed(3)
    ledger.sql("UPDATE audit_records SET body = '\\x00' WHERE tenant_id = $1 AND id = $2", ledger.links()[1][1])

    assert [record["seq"] for record in ledger.records()] == [3, 2, 1]
    assert "changed" in ledger.records()[1]["reason"]


@pytest.mark.parametrize("role", ["dragoman_app", "dragoman_core"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_records SET body = ''",
        "DELETE FROM audit_records",
        "TRUNCATE audit_records",
        "UPDATE audit_links SET hash = ''",
        "DELETE FROM audit_links",
        "UPDATE audit_heads SET signature = ''",
        "DELETE FROM audit_heads",
        "DELETE FROM audit_watermark",
    ],
)
def test_neither_role_may_change_or_remove_what_is_recorded(server: Server, role: str, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        run_sql(server, statement, role=role)


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("dragoman_app", "INSERT INTO audit_links (tenant_id, seq, record_id, hash) SELECT NULL, 1, NULL, ''"),
        ("dragoman_app", "INSERT INTO audit_heads (tenant_id, seq) SELECT NULL, 1"),
        ("dragoman_app", "INSERT INTO audit_records (tenant_id, xid) SELECT NULL, '3'"),
        ("dragoman_app", "UPDATE audit_watermark SET xid = '9'"),
        ("dragoman_core", "INSERT INTO audit_records (tenant_id, xid) SELECT NULL, '3'"),
    ],
)
def test_each_role_adds_only_what_is_its_own(server: Server, role: str, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        run_sql(server, statement, role=role)


def test_an_export_is_verified_by_the_file_alone(ledger: Ledger) -> None:
    ledger.write(5)
    ledger.wait_sealed(5)

    done = run_verifier(str(ledger.export()), "--public-key", ledger.public_key, "--head", str(ledger.heads_file))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OK: 5 records, unbroken and signed, held against")


def test_an_edited_line_of_an_export_is_named(ledger: Ledger) -> None:
    ledger.write(4)
    ledger.wait_sealed(4)
    file = ledger.export()
    lines = file.read_text().splitlines()
    body = lines[2].partition('"body": "')[2].partition('"')[0]
    lines[2] = lines[2].replace(body, body[4:8] + body[:4] + body[8:])
    file.write_text("\n".join(lines))

    done = run_verifier(str(file))

    assert done.returncode == 1
    assert done.stdout.startswith("BROKEN at link 2: ")


def test_an_export_of_a_chain_that_grows_ends_at_the_head_it_carries(ledger: Ledger) -> None:
    def write() -> None:
        for _ in range(20):
            answer = ledger.client.post("/api/keys", json={"name": secrets.token_hex(4)})
            assert answer.status_code == 201

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        found = [run_verifier(str(ledger.export())).returncode for _ in range(2)]
        verified = [ledger.verify()["ok"] for _ in range(10)]
        writing.result()

    assert found == [0] * 2
    assert verified == [True] * 10


def test_an_export_in_pieces_can_be_held_to_the_head_of_the_first(ledger: Ledger) -> None:
    ledger.write(3)
    ledger.wait_sealed(3)
    first = ledger.client.get("/api/audit/export", params={"limit": 2}).json()["data"]
    ledger.write(3)
    ledger.wait_sealed(6)

    rest = ledger.client.get("/api/audit/export", params={"after": 2, "until": first["head"]["seq"]}).json()["data"]

    assert (first["next_after"], rest["next_after"]) == (2, None)
    assert [record["seq"] for record in rest["records"]] == [3]
    assert rest["head"] == first["head"]
