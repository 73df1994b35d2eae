"""Several servers, each with a data directory of its own, on one database."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pygit2
import pytest

from dragoman.infra.embedded.binaries import find_binaries
from dragoman.testing import RunningServer, running
from tests.doors.rest.calling import data, problem
from tests.harness import wait_for
from tests.services.tasks.envelopes import envelope

ADR = {"type": "adr", "content": "Because."}
NO_PICKLE = {
    "type": "policy",
    "id": "no-pickle",
    "title": "No pickle",
    "content": "It runs what it reads.",
    "severity": "block",
    "constraints": [{"operator": "must_not_use", "target": "import", "pattern": "pickle"}],
}
TWO_SIGN = {
    "type": "policy",
    "id": "two-sign",
    "title": "Two sign",
    "content": "As agreed.",
    "metadata": {"approvals": {"actions": ["document.*"], "quorum": 2}},
}
NDA = {"type": "document", "id": "nda-1"}
DRAFT = {
    "template": "mutual-nda",
    "fields": {
        "party_a": "Acme",
        "party_b": "Widgets",
        "effective_date": "2026-01-01",
        "term_months": 12,
        "governing_law": "England",
    },
}


@pytest.fixture
def first() -> Iterator[RunningServer]:
    with running() as server:
        yield server


@pytest.fixture
def second(first: RunningServer) -> Iterator[RunningServer]:
    with running(on(first)) as server:
        yield server


def on(server: RunningServer) -> dict[str, str]:
    """Database, Valkey and keys of a server, as docs/operations.md has it."""
    return {
        "DRAGOMAN_DATABASE_URL": server.database_url,
        "DRAGOMAN_REDIS_URL": server.redis_url,
        "DRAGOMAN_SECRETS_DIR": str(server.settings.secrets_path),
    }


def enact(client: httpx.Client, item: dict[str, Any]) -> str:
    item_id = str(data(client.post("/api/knowledge/propose", json=item), 201)["id"])
    data(client.post(f"/api/knowledge/{item_id}/accept", json={}))
    return item_id


def verdict(client: httpx.Client) -> tuple[bool, str]:
    """What a server says of a file that the policy forbids, and by which policies."""
    context = {"path": "src/app.py", "content": "import pickle\n"}
    said = data(client.post("/api/governance/validate", json={"context": context, "target_layer": "project"}))
    return said["valid"], said["policy_version"]


def accepted(client: httpx.Client) -> set[str]:
    found = data(client.post("/api/knowledge/query", json={"limit": 100, "status": ["accepted"]}))
    return {item["id"] for item in found["items"]}


def forget_rows(server: RunningServer) -> None:
    """Put a database back to before repositories were rows, with the repository in the server's directory."""
    [repository] = (server.data_dir / "knowledge").glob("*.git")
    git = pygit2.Repository(str(repository))
    for row in execute(server, "SELECT name, target FROM knowledge_refs"):
        git.references.create(f"refs/heads/{row['name']}", pygit2.Oid(hex=row["target"]), force=True)
    execute(server, "DELETE FROM knowledge_refs")
    execute(server, "DELETE FROM knowledge_packs")
    execute(server, "UPDATE knowledge_repositories SET kept = false")


def restored(server: RunningServer) -> dict[str, str]:
    """A database made from a dump of a server's, and nothing else but Valkey and the keys."""
    name = f"restored_{uuid4().hex[:12]}"
    execute(server, f"CREATE DATABASE {name}")
    url = re.sub(r"/[^/?]+\?", f"/{name}?", server.database_url)
    with NamedTemporaryFile(suffix=".dump") as dump:
        tool("pg_dump", "--format=custom", f"--file={dump.name}", server.database_url)
        tool("pg_restore", "--exit-on-error", f"--dbname={url}", dump.name)
    return on(server) | {"DRAGOMAN_DATABASE_URL": url}


def tool(name: str, *arguments: str) -> None:
    """Run a program of the PostgreSQL that the embedded server comes with."""
    subprocess.run([str(find_binaries().postgres.with_name(name)), *arguments], check=True)


def execute(server: RunningServer, sql: str) -> list[asyncpg.Record]:
    async def run() -> list[asyncpg.Record]:
        connection = await asyncpg.connect(server.database_url)
        try:
            return list(await connection.fetch(sql))
        finally:
            await connection.close()

    return asyncio.run(run())


def test_two_servers_decide_alike_right_after_a_write_on_either(first: RunningServer, second: RunningServer) -> None:
    with first.client(first.token()) as one, second.client(second.token()) as other:
        enact(one, NO_PICKLE)
        after_first = [verdict(other), verdict(one)]
        data(other.post("/api/knowledge/no-pickle/deprecate", json={"reason": "obsolete"}))
        after_second = [verdict(one), verdict(other)]

    assert [valid for valid, _ in after_first] == [False, False]
    assert [valid for valid, _ in after_second] == [True, True]
    assert len(set(after_first)) == len(set(after_second)) == 1


def test_two_servers_ask_for_the_same_consent_check_alike_and_are_well(
    first: RunningServer, second: RunningServer
) -> None:
    """F1: the second server had no policies at all, and its health was good."""
    answers: list[Any] = []
    with first.client(first.token()) as one, second.client(second.token()) as other:
        enact(one, NO_PICKLE)
        enact(one, TWO_SIGN)
        for client in (one, other):
            refused = client.post("/api/tasks", json=envelope("document.draft", DRAFT, resource=NDA))
            missing = problem(refused, 403, "GOVERNANCE_CONTEXT_REQUIRED")["details"]["missing"]
            files = [{"path": "a.py", "content": "import pickle"}]
            checked = data(client.post("/api/knowledge/check", json={"files": files}))
            answers.append((missing, checked["passed"], [found["item_id"] for found in checked["violations"]]))
        health = [client.get("/health").json() for client in (one, other)]

    assert answers[0] == answers[1]
    assert any(policy["id"] == "two-sign" for part in answers[0][0] for policy in part.get("policies", []))
    assert answers[0][1:] == (False, ["no-pickle"])
    assert [(said["status"], said["dependencies"]["git"]["status"]) for said in health] == [("ok", "up")] * 2


def test_what_one_server_accepts_stands_beside_what_the_other_accepted(
    first: RunningServer, second: RunningServer
) -> None:
    """Enough writes that packs are merged into one another on both sides."""
    with first.client(first.token()) as one, second.client(second.token()) as other:
        enact(one, NO_PICKLE)
        ids = {enact((one, other)[number % 2], {**ADR, "title": f"Decision {number}"}) for number in range(12)}
        seen = [accepted(one), accepted(other)]
        changes = data(other.get("/api/knowledge/no-pickle/history"))["changes"]
        verdicts = [verdict(one), verdict(other)]

    assert seen == [ids | {"no-pickle"}] * 2
    assert len(changes) == 2
    assert [valid for valid, _ in verdicts] == [False, False]


def test_a_dump_of_the_database_alone_brings_the_knowledge_back(first: RunningServer) -> None:
    with first.client(first.token()) as client:
        enact(client, NO_PICKLE)
        data(client.post("/api/knowledge/propose", json={**ADR, "id": "adr-later", "title": "Later"}), 201)
        before = verdict(client), data(client.get("/api/knowledge/no-pickle/history"))

    with running(restored(first)) as other, other.client(other.token()) as client:
        after = verdict(client), data(client.get("/api/knowledge/no-pickle/history"))
        data(client.post("/api/knowledge/adr-later/accept", json={}))

        assert after == before
        assert accepted(client) == {"no-pickle", "adr-later"}


def test_a_repository_of_an_earlier_release_is_taken_over_by_the_server_that_has_it(first: RunningServer) -> None:
    with first.client(first.token()) as client:
        enact(client, NO_PICKLE)
        data(client.post("/api/knowledge/propose", json={**ADR, "id": "adr-later", "title": "Later"}), 201)
        before = verdict(client)
    forget_rows(first)

    with running(on(first)) as stranger, stranger.client(stranger.token()) as client:
        refused = client.post("/api/governance/validate", json={"context": {}, "target_layer": "project"})
        problem(refused, 503, "UPSTREAM_UNAVAILABLE")
        problem(client.post("/api/knowledge/propose", json={**ADR, "title": "Wipe"}), 503, "UPSTREAM_UNAVAILABLE")
        own = on(first) | {"DRAGOMAN_KNOWLEDGE__DIR": str(first.data_dir / "knowledge")}
        with running(own) as upgraded, upgraded.client(upgraded.token()) as owner:
            assert verdict(owner) == before
        assert verdict(client) == before
        data(client.post("/api/knowledge/adr-later/accept", json={}))
        assert accepted(client) == {"no-pickle", "adr-later"}


def test_a_server_that_cannot_read_the_policies_refuses_and_says_so(first: RunningServer, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    with first.client(first.token()) as client:
        enact(client, NO_PICKLE)
    with running(on(first) | {"DRAGOMAN_KNOWLEDGE__DIR": str(blocked)}) as server:
        shutil.rmtree(blocked, ignore_errors=True)
        blocked.write_text("no directory")
        with server.client(server.token()) as client:
            refused = client.post("/api/governance/validate", json={"context": {}, "target_layer": "project"})
            handed_over = client.post("/api/tasks", json=envelope("document.draft", DRAFT, resource=NDA))
            health = client.get("/health").json()

            problem(refused, 503, "UPSTREAM_UNAVAILABLE")
            problem(handed_over, 503, "UPSTREAM_UNAVAILABLE")
            assert int(refused.headers["retry-after"]) > 0
            assert (health["status"], health["dependencies"]["git"]["status"]) == ("degraded", "down")

            blocked.unlink()
            assert not verdict(client)[0]
            data(client.post("/api/tasks", json=envelope("document.draft", DRAFT, resource=NDA)), 201)
            # A report is given again for a second.
            wait_for(lambda: client.get("/health").json()["dependencies"]["git"]["status"] == "up", "git to be up")


def test_policies_whose_branch_is_gone_from_the_database_refuse_and_are_not_taken_for_none(
    first: RunningServer,
) -> None:
    """As a restore of some of the tables leaves them: before, everything was allowed, and health was good."""
    with first.client(first.token()) as client:
        enact(client, NO_PICKLE)
        before = verdict(client)
        [main] = execute(first, "SELECT tenant_id, name, target FROM knowledge_refs")
        execute(first, "DELETE FROM knowledge_refs")

        # Policies are read again once what was read is 2 ms old.
        ask = {"context": {"path": "a.py", "content": "import pickle"}, "target_layer": "project"}
        wait_for(lambda: client.post("/api/governance/validate", json=ask).status_code == 503, "the refusal")
        handed_over = client.post("/api/tasks", json=envelope("document.draft", DRAFT, resource=NDA))
        proposed = client.post("/api/knowledge/propose", json={**ADR, "title": "Anew"})
        lost = client.get("/health").json()
        execute(first, "INSERT INTO knowledge_refs VALUES ('{tenant_id}', '{name}', '{target}')".format(**dict(main)))
        after = verdict(client)
        wait_for(lambda: client.get("/health").json()["dependencies"]["git"]["status"] == "up", "git to be up")

    for refused in (handed_over, proposed):
        problem(refused, 503, "UPSTREAM_UNAVAILABLE")
    assert (lost["status"], lost["dependencies"]["git"]["status"]) == ("degraded", "down")
    assert after == before
