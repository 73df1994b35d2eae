"""`dragoman approval`, as people see it."""

import json
from pathlib import Path

from tests.backstage import add_tenant
from tests.harness import Server

ENVELOPE = {
    "envelope_version": "1",
    "actor": {"id": "bot-7", "type": "agent"},
    "action": "signature.witness",
    "resource": {"type": "deed", "id": "nda-1", "version": "3"},
    "matter": {"id": "matter-7"},
    "idempotency_key": "k-1",
    "request": {},
    "input": {"note": "\x1b[31mred\x1b[0m"},
}


def test_who_must_approve_what_is_seen_and_said_in_the_shell(server: Server, tmp_path: Path) -> None:
    tenant, file = add_tenant(server), tmp_path / "envelope.json"
    file.write_text(json.dumps(ENVELOPE))
    ann, bob = ({"DRAGOMAN_TOKEN": server.token(role="operator", tenant=tenant, user=name)} for name in ("ann", "bob"))

    asked = server.cli("approval", "request", "--file", str(file), "--reason", "agreed", "--json", environment=ann)
    approval = json.loads(asked.stdout)
    waiting = server.cli("approval", "list", "--decidable", environment=bob)
    shown = server.cli("approval", "show", approval["approval_id"], environment=bob)
    own = server.cli("approval", "approve", approval["approval_id"], environment=ann)
    other = server.cli("approval", "approve", approval["approval_id"], "--digest", "0123456789", environment=bob)
    done = server.cli(
        "approval", "approve", approval["approval_id"], "--digest", approval["digest"][:12], "--json", environment=bob
    )

    assert (approval["parties"], approval["claims"]) == (["ann"], ["bot-7"])
    assert approval["approval_id"] in waiting.stdout
    assert "PENDING  signature.witness  deed nda-1@3  in matter-7" in shown.stdout
    assert "0 of 1 approvals, by people in the role operator or org_admin, not by ann" in shown.stdout
    assert "bot-7 (a claim: nobody has checked it)" in shown.stdout
    assert approval["digest"][:12] in shown.stdout
    assert "contracts-approval@1" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert (own.returncode, other.returncode) == (4, 2)
    assert "SELF_APPROVAL" in own.stderr
    decided = json.loads(done.stdout)
    assert (decided["state"], decided["decisions"][0]["digest"]) == ("approved", approval["digest"])


def test_a_file_that_is_no_envelope_is_wrong_usage(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "envelope.json"
    file.write_text('["not", "one"]')

    answer = server.cli("approval", "request", "--file", str(file))

    assert (answer.returncode, "is no envelope" in answer.stderr) == (2, True)


def test_denying_says_no_with_a_reason(server: Server) -> None:
    tenant = add_tenant(server)
    ann, bob = ({"DRAGOMAN_TOKEN": server.token(role="operator", tenant=tenant, user=name)} for name in ("ann", "bob"))
    asked = server.cli(
        "approval", "request", "--action", "signature.witness", "--resource", '{"type": "deed", "id": "nda-1"}',
        "--matter-id", "m-1", "--json", environment=ann,
    )  # fmt: skip

    denied = server.cli(
        "approval", "deny", json.loads(asked.stdout)["approval_id"], "--reason", "wrong party", environment=bob
    )

    assert "DENIED  signature.witness" in denied.stdout
    assert "no   bob (operator)" in denied.stdout
    assert "wrong party" in denied.stdout
