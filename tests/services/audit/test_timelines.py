"""What an auditor sees offline: the file alone, an export, and no server."""

import base64
import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.services.audit.ledger import run_verifier
from tests.services.audit.test_rows import Contract, contract

__all__ = ["contract"]


@pytest.fixture(scope="module")
def export(contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of a contract that was prepared, approved and sent."""
    file = tmp_path_factory.mktemp("audit") / "trail.jsonl"
    file.write_bytes(b"\n".join(contract.ledger.export_lines()))
    return file


def shown(export: Path, what: str) -> CompletedProcess[str]:
    return run_verifier(str(export), "--show", what)


def words(done: CompletedProcess[str]) -> list[str]:
    """The words that records begin with, in their order."""
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("20")]
    return [line.split("  ")[1] for line in lines]


@pytest.mark.req("ORC-AUD-1")
def test_a_task_is_shown_from_the_request_to_the_evidence(contract: Contract, export: Path) -> None:
    done = shown(export, f"task/{contract.task}")

    told = words(done)
    order = ["APPROVED", "ASKED", "STARTED", "PERFORMED"]
    assert [word for word in told if word in order] == order
    decision, *_ = [
        line for line in done.stdout.splitlines() if f"approval_decisions/{contract.approval}/olga:" in line
    ]
    assert all(said in decision for said in ("decision approve", "reason read it", "role operator"))
    assert f"approvals: {contract.approval}" in done.stdout
    for name in ("approved digest: ", "evidence: ", "effects/", "input sha256: ", "by admin (user: org_admin)"):
        assert name in done.stdout


def test_an_approval_a_document_and_a_signature_are_shown(contract: Contract, export: Path) -> None:
    assert "APPROVED" in words(shown(export, f"approval/{contract.approval}"))
    assert "document_versions/" in shown(export, f"document/{contract.document}").stdout
    assert "signers sha256:" in shown(export, f"signature/{contract.signature}").stdout


def test_everything_is_shown_in_the_order_of_the_chain(export: Path) -> None:
    records = [one for one in map(json.loads, export.read_text().splitlines()) if one["type"] in ("record", "tail")]

    assert len(words(shown(export, "all"))) == len(records)


def test_what_no_record_speaks_of_has_an_exit_code_of_its_own(export: Path) -> None:
    done = shown(export, "task/01a1f05c-0000-7000-8000-000000000000\x1b[2J")

    assert done.returncode == 3
    assert "no record of this export speaks of" in done.stdout
    assert "\x1b" not in done.stdout


def test_an_export_that_lost_its_rows_or_its_end_is_no_whole_one(contract: Contract) -> None:
    lines = contract.ledger.export_lines()
    rows = [place for place, line in enumerate(lines) if json.loads(line)["type"] == "row"]

    without_end = run_verifier("-", given=b"\n".join(lines[:-1]))
    without_row = run_verifier("-", given=b"\n".join(line for place, line in enumerate(lines) if place != rows[0]))

    assert (without_end.returncode, "the export was cut" in without_end.stdout) == (1, True)
    assert (without_row.returncode, "lines are missing" in without_row.stderr) == (2, True)


def test_records_after_the_head_are_told_apart_and_prove_nothing(contract: Contract) -> None:
    lines = [json.loads(line) for line in contract.ledger.export_lines()]
    sealed = [line for line in lines if line["type"] == "record"]
    head = next(place for place, line in enumerate(lines) if line["type"] == "head")
    [row] = [line for line in lines if line.get("name") == f"tasks/{contract.task}"]
    row["columns"]["state"] = "failed"
    last_word = next(one for one in reversed(sealed) if f"tasks/{contract.task}".encode() in _body(one))

    def check(more: list[dict[str, object]]) -> CompletedProcess[str]:
        end = lines[-1] | {"tail": lines[-1]["tail"] + len(more)}
        every = [*lines[: head + 1], *more, *lines[head + 1 : -1], end]
        return run_verifier("-", given=b"\n".join(json.dumps(line).encode() for line in every))

    assert "state is 'failed', the chain says 'succeeded'" in check([]).stdout
    written_again = check([{"type": "tail", "seq": None, "id": last_word["id"], "body": last_word["body"]}])
    assert written_again.returncode == 0, written_again.stdout
    assert "came after the signed head" in written_again.stdout
    assert "rows that they wrote were not compared" in written_again.stdout


def _body(record: dict[str, str]) -> bytes:
    return base64.b64decode(record["body"])
