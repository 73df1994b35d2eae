import subprocess
import sys

import pytest

from dragoman import __version__
from tests.doors.cli.terminal import Terminal
from tests.harness import DRAGOMAN, Server


@pytest.mark.req("GW-004")
def test_a_tenant_is_made_read_changed_and_deleted(terminal: Terminal, tenant: str) -> None:
    changed = terminal.type("tenant", "update", tenant, "--name", "Theirs", "--plan", "free", "--json")
    shown = terminal.type("tenant", "show", tenant, "--json")
    listed = terminal.type("tenant", "list", "--limit", "200", "--json")
    deleted = terminal.type("tenant", "delete", tenant, "--json")

    assert [result.status for result in (changed, shown, listed, deleted)] == [0, 0, 0, 0]
    assert (shown.data["name"], shown.data["plan"]) == ("Theirs", "free")
    assert tenant in [item["slug"] for item in listed.data["items"]]
    assert deleted.data["status"] == "deleted"


@pytest.mark.req("GW-006")
def test_a_user_is_invited_comes_changes_and_goes(terminal: Terminal, tenant: str) -> None:
    invited = terminal.type("user", "invite", "--tenant", tenant, "--email", "ada@x.example", "--name", "Ada", "--json")
    accepted = terminal.type("user", "accept", "--name", "Ada King", "--json", token=invited.data["invitation"])
    promoted = terminal.type("user", "update", invited.data["id"], "--role", "operator", "--tenant", tenant, "--json")
    deleted = terminal.type("user", "delete", invited.data["id"], "--tenant", tenant, "--json")

    assert accepted.data["user"]["name"] == "Ada King"
    assert (promoted.data["status"], promoted.data["role"]) == ("active", "operator")
    assert deleted.data == {"id": invited.data["id"], "success": True}


def test_invite_says_what_to_do_next_in_a_command_that_works(terminal: Terminal, tenant: str, server: Server) -> None:
    invited = terminal.type("user", "invite", "--tenant", tenant, "--email", "bo@x.example", "--name", "Bo")

    line = next(line for line in invited.err.splitlines() if line.endswith("dragoman user accept")).split()
    given = dict(word.split("=", 1) for word in line[:2])
    accepted = terminal.type(*line[3:], **given)

    assert given["DRAGOMAN_URL"] == server.url
    assert accepted.status == 0
    assert "shown this once" in invited.err


def test_rotate_shows_the_new_secret_once_and_says_what_becomes_of_the_old_key(terminal: Terminal, tenant: str) -> None:
    made = terminal.type("key", "create", "--tenant", tenant, "--name", "night", "--role", "viewer", "--json").data

    rotated = terminal.type("key", "rotate", made["id"], "--tenant", tenant, "--grace-s", "600")

    assert "works for 600 s more" in rotated.err
    assert "shown this once" in rotated.err
    secret = next(line.split()[1] for line in rotated.out.splitlines() if line.startswith("secret"))
    for key in (made["secret"], secret):
        assert terminal.type("whoami", "--json", token=key).data["tenant"] == tenant


def test_a_page_says_how_to_see_the_next(terminal: Terminal, tenant: str) -> None:
    terminal.type("tenant", "create", "--name", "Another", "--slug", f"{tenant}-b")

    page = terminal.type("tenant", "list", "--limit", "1", "--json")
    shown = terminal.type("tenant", "list", "--limit", "1")
    following = terminal.type("tenant", "list", "--limit", "1", "--cursor", page.data["next_cursor"], "--json")

    assert f"more: --cursor {page.data['next_cursor']}" in shown.err
    assert (page.data["items"][0]["slug"], following.data["items"][0]["slug"]) == (f"{tenant}-b", tenant)


class TestExitCodes:
    def test_0_is_done(self, terminal: Terminal) -> None:
        assert terminal.type("whoami").status == 0

    def test_1_is_an_operation_that_failed(self, terminal: Terminal) -> None:
        failed = terminal.type("tenant", "show", "nobody")

        assert failed.status == 1
        assert failed.err.splitlines()[0] == "NOT_FOUND  tenant 'nobody' not found"
        assert failed.err.splitlines()[1].startswith("  request ")

    @pytest.mark.parametrize(
        "words",
        [
            ("tenant", "show"),
            ("user", "invite", "--name", "x"),
            ("tenant", "list", "--plan", "golden"),
            ("tenant", "list", "--limit", "many"),
            ("audit", "verify", "--head", "{"),
            ("tenant", "lits"),
            ("tenannt",),
            ("serve", "--port", "99999"),
            ("--frobnicate",),
        ],
        ids=" ".join,
    )
    def test_2_is_wrong_usage(self, terminal: Terminal, words: tuple[str, ...]) -> None:
        wrong, for_programs = terminal.type(*words), terminal.type(*words, "--json")

        assert (wrong.status, wrong.out) == (2, "")
        assert wrong.err.startswith("Error  ")
        assert "--help" in wrong.err.splitlines()[-1]
        assert (for_programs.status, for_programs.err) == (2, "")
        assert for_programs.data["error"]["code"] == "INVALID_PARAMS"

    def test_2_is_a_wrong_configuration(self, terminal: Terminal) -> None:
        wrong = terminal.type("whoami", port="http")

        assert wrong.status == 2
        assert "DRAGOMAN_PORT" in wrong.err

    @pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1", "http://[::1]:1/prefix"])
    def test_3_is_a_server_that_does_not_answer(self, terminal: Terminal, url: str) -> None:
        alone = terminal.type("whoami", "--json", url=url)

        assert alone.status == 3
        assert alone.data["error"]["code"] == "UPSTREAM_UNAVAILABLE"
        assert url in alone.data["error"]["message"]

    @pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "http://x:port"])
    def test_2_is_an_address_that_is_none(self, terminal: Terminal, url: str) -> None:
        assert terminal.type("whoami", url=url).status == 2

    def test_3_is_a_machine_without_a_server(self, elsewhere: Terminal) -> None:
        alone = elsewhere.type("tenant", "list")

        assert alone.status == 3
        assert "dragoman serve" in alone.err

    def test_4_is_no_valid_credential(self, terminal: Terminal) -> None:
        refused = terminal.type("whoami", "--json", token="not-a-token")

        assert refused.status == 4
        assert refused.data["error"]["code"] == "UNAUTHENTICATED"

    def test_4_is_a_caller_who_may_not(self, terminal: Terminal, server: Server) -> None:
        refused = terminal.type("user", "list", token=server.token(role="viewer", user="viv"))

        assert refused.status == 4
        assert refused.err.startswith("UNAUTHORIZED  ")


def test_every_wrong_field_has_its_line(terminal: Terminal) -> None:
    words = ("tenant", "create", "--name", " ", "--slug", "No Good")

    wrong, for_programs = terminal.type(*words), terminal.type(*words, "--json")

    assert wrong.status == 1
    assert [line.split()[0] for line in wrong.err.splitlines()] == ["INVALID_PARAMS", "name", "slug", "request"]
    assert [item["field"] for item in for_programs.data["error"]["details"]["errors"]] == ["name", "slug"]
    assert for_programs.data["error"]["request_id"]
    assert for_programs.err == ""


def test_another_tenant_than_that_of_the_token_is_refused_before_anything_is_done(
    terminal: Terminal, tenant: str, server: Server
) -> None:
    """The banner tells people to export a token; `--tenant` must not then be silently ignored."""
    token = server.token(role="super_admin")

    assert terminal.type("user", "list", "--tenant", "demo", token=token).status == 0
    assert terminal.type("user", "list", "--tenant", tenant, token=token).status == 2
    assert terminal.type("user", "list", "--tenant", tenant, token="dgm_key").status == 2


def test_an_expected_version_is_held_against_the_present_one(terminal: Terminal, tenant: str) -> None:
    stale = terminal.type("tenant", "update", tenant, "--name", "New", "--expected-version", "7", "--json")

    assert stale.status == 1
    assert stale.data["error"]["code"] == "PRECONDITION_FAILED"


def test_config_check_shows_what_is_in_force_without_secrets(terminal: Terminal) -> None:
    given = {
        "database_url": "postgresql://me:hush@db/x",
        "otlp_endpoint": "http://me:hush@otel:4318",
        "limits__ip_per_min": "7",
    }

    shown, for_programs = terminal.type("config", "check", **given), terminal.type("config", "check", "--json", **given)

    assert (shown.status, for_programs.status) == (0, 0)
    assert "hush" not in shown.out + for_programs.out
    assert "limits.ip per min" in shown.out
    assert for_programs.data["settings"]["limits"]["ip_per_min"] == 7


def test_config_check_ends_with_2_for_what_is_wrong_or_unknown(terminal: Terminal) -> None:
    wrong = terminal.type("config", "check", "--json", port="x")
    unknown = terminal.type("config", "check", "--json", prot="1")

    assert (wrong.status, unknown.status) == (2, 2)
    assert "DRAGOMAN_PORT" in wrong.data["error"]["message"]
    assert unknown.data["unknown"] == ["DRAGOMAN_PROT is not a setting; did you mean DRAGOMAN_PORT?"]


def test_a_worker_without_servers_to_share_says_which_to_name(elsewhere: Terminal) -> None:
    alone = elsewhere.type("worker")

    assert alone.status == 2
    assert "DRAGOMAN_DATABASE_URL" in alone.err


def test_the_older_name_is_the_same_program(terminal: Terminal) -> None:
    beside = DRAGOMAN.with_name("agent-a2a")
    version = subprocess.run([beside, "version"], capture_output=True, text=True, check=True).stdout

    helped = terminal.type("tenant", "create", "--help", program="agent-a2a")
    wrong = terminal.type("tenant", "show", program="agent-a2a")

    assert version == f"dragoman {__version__}\n"
    assert "agent-a2a tenant create --name" in helped.out
    assert "Help: agent-a2a tenant show --help" in wrong.err
    assert "dragoman" not in helped.out + wrong.err


@pytest.mark.parametrize(
    ("typed", "heavy"),
    [
        ("version", "pydantic cryptography jwt httpx asyncpg http.client"),
        ("--help", "pydantic cryptography jwt httpx asyncpg http.client"),
        ("tenant list", "cryptography jwt httpx asyncpg pydantic_settings starlette uvicorn"),
    ],
)
def test_a_command_imports_only_what_it_needs(server: Server, typed: str, heavy: str) -> None:
    """What a command line feels like is what it imports; this is the part of it that does not depend on the machine."""
    script = (
        "import atexit, sys; from dragoman.__main__ import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = {['dragoman', *typed.split()]!r}; main()"
    )
    environment = server.environment | {"DRAGOMAN_URL": server.url, "DRAGOMAN_TOKEN": server.token(role="super_admin")}

    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert set(heavy.split()) & set(ran.stderr.split()) == set()
