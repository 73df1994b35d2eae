"""A database that is lost, and comes back from `pg_dump` alone: docs/operations.md, "Back-up"."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.infra.embedded import EmbeddedServices
from dragoman.infra.embedded.binaries import find_binaries
from tests.clusters import data_dir, lay_cluster
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server, wait_for
from tests.infra.databases import superuser
from tests.services.approvals.asking import Office, accept_policy, decide
from tests.services.contracts.keeping import add, content_of
from tests.services.tasks.envelopes import ended, envelope, status, submit

TEXT = b"We pay EUR 1,000.\n"
PICKLE = {"operator": "must_not_use", "target": "import", "pattern": "pickle"}
ROLES = ("dragoman_app", "dragoman_core", "dragoman_definer")


@pytest.fixture
def empty() -> Iterator[str]:
    """Another PostgreSQL, which never saw a server of ours: its superuser's address."""
    place = data_dir()
    lay_cluster(place)
    services = EmbeddedServices(place, valkey=False)
    with asyncio.Runner() as runner:
        runner.run(services.start())
        yield services.database_url
        runner.run(services.stop())
    shutil.rmtree(place.parent)


def test_a_dump_alone_brings_back_every_decision_every_document_and_a_record_that_proves_it(
    empty: str, tmp_path: Path
) -> None:
    with InProcess() as first:
        office = Office(first, "demo")
        accept_policy(office, "no-pickle", constraints=[PICKLE], severity="block")
        accept_policy(office, "two-sign", approvals={"actions": ["document.*"], "quorum": 2})
        document = add(office.person("ann"), TEXT, name=f"contract-{uuid4().hex[:8]}")
        given = execution(document)
        missing = proposal(office, given)
        approval = data(office.person("ann").post("/api/approvals", json=missing["request"]), 201)
        refs = {"policy_refs": missing["policies"], "approval_refs": [approval["approval_id"]]}
        task = submit(office.person("ann"), given | {"governance": refs})
        data(decide(office.person("bob"), approval))
        sealed(first)
        before = picture(office, document, approval, task)
        restore(first, empty, tmp_path)
        office.close()

        with InProcess(on(first, empty)) as second:
            again = Office(second, "demo")
            after = picture(again, document, approval, task)
            verified = sealed(second)
            data(decide(again.person("cyd"), approval))
            done = ended(again.person("ann"), task["task_id"])
            executed = data(again.person("ann").get(f"/api/documents/{document['id']}"))
            again_verified = sealed(second)
            health = again.person("ann").get("/health").json()
            again.close()

    assert before["verdict"]["valid"] is False
    assert before["asked"]["quorum"] == 2
    assert before["task"]["state"] == "input_required"
    assert after == before
    assert verified["ok"] is True
    assert verified["records"] >= len(before["audit"])
    assert (done["state"], executed["executed_version"]) == ("succeeded", 1)
    assert again_verified["ok"] is True
    assert health["status"] == "ok"


def execution(document: dict[str, Any]) -> dict[str, Any]:
    """An envelope that would have the document executed."""
    return envelope(
        "document.mark_executed",
        {"evidence": [{"sha256": document["sha256"]}]},
        resource={"type": "document", "id": document["name"]},
        actor={"id": "ann", "type": "human"},
    )


def proposal(office: Office, given: dict[str, Any]) -> dict[str, Any]:
    """What the server says is missing before it would perform this."""
    refused = problem(office.person("ann").post("/api/tasks", json=given), 403, "GOVERNANCE_CONTEXT_REQUIRED")
    missing = refused["details"]["missing"]
    policies = [f"{one['id']}@{one['version']}" for part in missing for one in part.get("policies", [])]
    return {"policies": policies, "request": next(part["request"] for part in missing if "request" in part)}


def picture(office: Office, document: dict[str, Any], approval: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """What people see of all that matters."""
    ann, root = office.person("ann"), office.person("root", "org_admin")
    context = {"path": "src/app.py", "content": "import pickle\n"}
    wait_for(lambda: status(ann, task["task_id"])["state"] == "input_required", "the task to wait")
    verdict = data(ann.post("/api/governance/validate", json={"context": context, "target_layer": "project"}))
    return {
        "verdict": {name: verdict[name] for name in ("valid", "violations", "policies", "policy_version")},
        "history": data(ann.get("/api/knowledge/two-sign/history")),
        "asked": office.show(approval),
        "proposed": proposal(office, execution(document)),
        "task": status(ann, task["task_id"]),
        "content": content_of(ann, document["id"]),
        "audit": [one for one in data(root.get("/api/audit", params={"limit": 200}))
                  if one["operation"] in {"knowledge.accept", "approval.decide", "document.add"}],
    }  # fmt: skip


def sealed(server: Server) -> dict[str, Any]:
    """What `audit verify` says, on the command line, once all is sealed."""

    def verdict() -> dict[str, Any] | None:
        said = server.cli("audit", "verify", "--json", environment={"DRAGOMAN_TOKEN": server.token()})
        found = json.loads(said.stdout)
        assert said.returncode == 0, said.stdout
        return None if found["unsealed"] else found

    return wait_for(verdict, "the seal")


def restore(server: Server, empty: str, at: Path) -> None:
    """Dump as the user for back-ups, who is no superuser, and load into the other PostgreSQL."""
    backup, dump = f"backup_{uuid4().hex[:8]}", at / "dragoman.dump"
    asyncio.run(superuser(server.database_url, f"CREATE ROLE {backup} LOGIN BYPASSRLS IN ROLE pg_read_all_data"))
    try:
        tool("pg_dump", "--format=custom", f"--file={dump}", server.database_url.replace("postgres@", f"{backup}@"))
    finally:
        asyncio.run(superuser(server.database_url, f"DROP ROLE {backup}"))
    for role in ROLES:
        asyncio.run(superuser(empty, f"CREATE ROLE {role} NOLOGIN"))
    tool("pg_restore", "--exit-on-error", f"--dbname={empty}", str(dump))
    asyncio.run(superuser(empty, "CREATE ROLE served LOGIN NOINHERIT IN ROLE dragoman_app, dragoman_core"))


def on(server: InProcess, database_url: str) -> dict[str, str]:
    """Settings of a server with an empty data directory: the restored database, and the keys."""
    return {
        "DRAGOMAN_DATABASE_URL": database_url.replace("postgres@", "served@"),
        "DRAGOMAN_DATABASE_ADMIN_URL": database_url,
        "DRAGOMAN_REDIS_URL": server.redis_url,
        "DRAGOMAN_SECRETS_DIR": str(server.secrets_dir),
    }


def tool(name: str, *arguments: str) -> None:
    """Run a program of the PostgreSQL in the wheel, which has them all."""
    subprocess.run([str(find_binaries().postgres.with_name(name)), *arguments], check=True)
