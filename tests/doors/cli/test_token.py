from pathlib import Path

import jwt
import pytest

from dragoman.context import Role
from tests.doors.cli.terminal import Terminal
from tests.harness import Server


def is_taken(server: Server, token: str) -> bool:
    with server.client(token) as client:
        return client.get("/api/me").status_code == 200


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_a_token_of_every_role_is_taken_by_the_server(terminal: Terminal, server: Server, role: str) -> None:
    made = terminal.type("token", "--tenant", "demo", "--role", role, "--user", "ada")

    with server.client(made.out.strip()) as client:
        me = client.get("/api/me").json()["data"]

    assert (me["tenant"], me["subject"], me["roles"]) == ("demo", "ada", [role])


def test_it_is_an_org_admin_of_the_demo_tenant_unless_told_otherwise(terminal: Terminal) -> None:
    made = terminal.type("token")

    claims = jwt.decode(made.out.strip(), options={"verify_signature": False})
    assert (claims["tenant"], claims["roles"], claims["sub"]) == ("demo", ["org_admin"], "admin")
    assert made.err == ""


def test_scopes_narrow_it(terminal: Terminal, server: Server) -> None:
    made = terminal.type("token", "--role", "org_admin", "--scope", "read:audit", "--scope", "read:costs")

    with server.client(made.out.strip()) as client:
        statuses = [client.get(path).status_code for path in ("/api/audit", "/api/users")]

    assert statuses == [200, 403]


def test_programs_get_json(terminal: Terminal) -> None:
    made = terminal.type("token", "--role", "viewer", "--user", "viv", "--json")

    assert {**made.data, "token": "..."} == {
        "token": "...", "tenant": "demo", "role": "viewer", "subject": "viv", "scopes": None
    }  # fmt: skip


def test_an_unknown_tenant_is_found_now_and_not_later(terminal: Terminal) -> None:
    made = terminal.type("token", "--tenant", "nobody")

    assert (made.status, made.out) == (1, "")
    assert "nobody" in made.err


def test_the_token_of_the_environment_does_not_stand_in_for_the_new_one(terminal: Terminal) -> None:
    made = terminal.type("token", "--tenant", "nobody", token=terminal.type("token").out.strip())

    assert made.status == 1


def test_it_is_printed_with_a_note_when_no_server_can_check_it(terminal: Terminal) -> None:
    made = terminal.type("token", url="http://127.0.0.1:1")

    assert made.status == 0
    assert made.out.count(".") == 2
    assert "not checked" in made.err


def test_it_is_refused_where_an_external_issuer_is_configured(terminal: Terminal) -> None:
    made = terminal.type("token", "--json", issuer="https://id.example")

    assert made.status == 4
    assert made.data["error"]["code"] == "UNAUTHENTICATED"


def test_without_keys_it_says_how_to_get_them(elsewhere: Terminal) -> None:
    made = elsewhere.type("token")

    assert made.status == 3
    assert "dragoman serve" in made.err


def test_keys_of_another_user_are_not_readable(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "issuer.pem").write_text("not a key")

    made = terminal.type("token", secrets_dir=str(tmp_path))

    assert made.status == 4


def test_a_revoked_token_is_refused(terminal: Terminal, server: Server) -> None:
    token = terminal.type("token", "--role", "viewer", "--user", "short-lived").out.strip()
    token_id = jwt.decode(token, options={"verify_signature": False})["jti"]

    revoked = terminal.type("token", "revoke", "--token-id", token_id)

    assert revoked.status == 0
    assert not is_taken(server, token)


def test_all_tokens_of_a_principal_can_be_revoked(terminal: Terminal, server: Server) -> None:
    token = terminal.type("token", "--user", "leaver").out.strip()

    revoked = terminal.type("token", "revoke", "--subject", "leaver")

    assert revoked.status == 0
    assert not is_taken(server, token)


def test_a_revocation_of_nothing_is_refused(terminal: Terminal) -> None:
    assert terminal.type("token", "revoke").status == 1


def test_options_before_revoke_are_not_silently_dropped(terminal: Terminal) -> None:
    """`token --tenant acme revoke` would otherwise act in the demo tenant."""
    assert terminal.type("token", "--tenant", "acme", "revoke", "--subject", "x").status == 2
