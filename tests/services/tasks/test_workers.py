"""Workers of tenants through the doors."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data, new_tenant, org_admin, problem
from tests.harness import Server

WORKER: dict[str, Any] = {
    "name": "partner",
    "kind": "a2a",
    "url": "https://agent.example.com",
    "credential": "a-very-secret-token",
    "actions": [{"action": "form.fill", "timeout_s": 5, "at_once": 2, "version": "2.1"}],
}


def taking(schema: dict[str, Any]) -> dict[str, Any]:
    return {"actions": [{"action": "form.fill", "input_schema": schema}]}


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    with org_admin(server, new_tenant(server)["slug"]) as client:
        yield client


def test_a_credential_is_kept_sealed_and_shown_nowhere(server: Server, admin: httpx.Client) -> None:
    made = admin.post("/api/workers", json=WORKER)
    listed = admin.get("/api/workers", params={"kind": "a2a"})
    row = sql(server, "SELECT secret, actions::text FROM workers WHERE id = $1", data(made, 201)["id"])[0]

    assert data(listed) == [data(made, 201)]
    assert data(listed)[0]["has_credential"] is True
    assert "very-secret" not in made.text + listed.text + row["actions"]
    assert b"very-secret" not in row["secret"]
    assert "very-secret" not in server.log.read_text()


def test_what_a_worker_may_do_is_decided_apart_from_what_it_can(admin: httpx.Client) -> None:
    data(admin.post("/api/workers", json=WORKER), 201)
    before = data(admin.get("/api/capabilities", params={"action": "form.fill"}))

    after = data(admin.post("/api/capabilities/form.fill/allow", json={"worker": "a2a:partner", "reason": "tried it"}))
    back = data(admin.post("/api/capabilities/form.fill/deny", json={}))

    assert [(one["worker"], one["allowed"], one["performs"]) for one in before] == [("a2a:partner", False, False)]
    assert after["performed_by"] == "a2a:partner"
    told = after["capabilities"][0]
    assert (told["version"], told["timeout_s"], told["at_once"], told["required"]) == ("2.1", 5, 2, False)
    assert (told["reason"], told["decided_by"]) == ("tried it", "admin")
    assert back["performed_by"] is None


@pytest.mark.parametrize(
    "url",
    ["http://agent.example.com", "https://127.0.0.1/", "https://10.0.0.8/mcp", "ftp://example.com/", "no address"],
)
def test_an_address_that_must_not_be_reached_is_refused_when_it_is_named(admin: httpx.Client, url: str) -> None:
    problem(admin.post("/api/workers", json=WORKER | {"url": url}), 400, "ADDRESS_REFUSED")
    data(admin.post("/api/workers", json=WORKER), 201)
    problem(admin.patch("/api/workers/a2a:partner", json={"url": url, "credential": "x"}), 400, "ADDRESS_REFUSED")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "Partner 1"}, "name"),
        ({"actions": []}, "actions"),
        ({"actions": [{"action": "nodots"}]}, "actions.0.action"),
        ({"actions": [{"action": "form.fill"}, {"action": "form.fill"}]}, "actions"),
        ({"actions": [{"action": "form.fill", "timeout_s": 0}]}, "actions.0.timeout_s"),
        (taking({"type": 5}), "actions.0.input_schema"),
        (taking({"$ref": "#"}), "actions.0.input_schema"),
        (taking({"items": {"pattern": "(a+)+$"}}), "actions.0.input_schema"),
        ({"credential": "two\nlines"}, "credential"),
        ({"header": "X: y"}, "header"),
    ],
)  # fmt: skip
def test_a_registration_that_breaks_a_rule_names_the_field(
    admin: httpx.Client, wrong: dict[str, Any], field: str
) -> None:
    refused = problem(admin.post("/api/workers", json=WORKER | wrong), 400, "INVALID_PARAMS")

    assert [error["field"] for error in refused["errors"]] == [field]
    assert data(admin.get("/api/workers", params={"kind": "a2a"})) == []


def test_a_name_is_given_once(admin: httpx.Client) -> None:
    data(admin.post("/api/workers", json=WORKER), 201)

    refused = problem(admin.post("/api/workers", json=WORKER), 409, "CONFLICT")

    assert refused["details"]["reason"] == "WORKER_EXISTS"


def test_a_worker_takes_its_credential_to_no_other_host(admin: httpx.Client) -> None:
    """Or whoever may change an address could have the secret sent to themselves."""
    data(admin.post("/api/workers", json=WORKER), 201)

    moved = {"url": "https://elsewhere.example.com"}
    refused = problem(admin.patch("/api/workers/a2a:partner", json=moved), 400, "INVALID_PARAMS")
    taken = data(admin.patch("/api/workers/a2a:partner", json=moved | {"credential": "another"}))

    assert [error["field"] for error in refused["errors"]] == ["credential"]
    assert (taken["url"], taken["version"]) == ("https://elsewhere.example.com", 2)


def test_a_change_to_another_version_than_was_read_is_refused(admin: httpx.Client) -> None:
    etag = admin.post("/api/workers", json=WORKER).headers["etag"]
    data(admin.patch("/api/workers/a2a:partner", json={"enabled": False}, headers={"if-match": etag}))

    again = admin.patch("/api/workers/a2a:partner", json={"enabled": True}, headers={"if-match": etag})

    problem(again, 412, "PRECONDITION_FAILED")


@pytest.mark.parametrize("role", ["operator", "analyst", "viewer", "agent"])
def test_who_runs_the_tenant_decides_and_nobody_else(server: Server, role: str) -> None:
    tenant = new_tenant(server)["slug"]
    with server.client(server.token(role=role, tenant=tenant)) as other:
        problem(other.post("/api/workers", json=WORKER), 403, "UNAUTHORIZED")
        problem(other.post("/api/capabilities/form.fill/allow", json={"worker": "a2a:x"}), 403, "UNAUTHORIZED")
        assert other.get("/api/capabilities").status_code == 200


def test_another_tenants_workers_are_not_there(server: Server, admin: httpx.Client) -> None:
    data(admin.post("/api/workers", json=WORKER), 201)

    with org_admin(server, new_tenant(server)["slug"]) as rival:
        assert data(rival.get("/api/workers", params={"kind": "a2a"})) == []
        problem(rival.delete("/api/workers/a2a:partner"), 404, "NOT_FOUND")
        problem(rival.post("/api/capabilities/form.fill/allow", json={"worker": "a2a:partner"}), 404, "NOT_FOUND")


def test_the_credentials_of_a_tenant_go_with_it(server: Server) -> None:
    tenant = new_tenant(server)
    with org_admin(server, tenant["slug"]) as admin:
        data(admin.post("/api/workers", json=WORKER), 201)

    with server.admin() as platform:
        data(platform.delete(f"/api/tenant/{tenant['slug']}"))

    assert sql(server, "SELECT 1 FROM workers WHERE tenant_id = $1", tenant["id"]) == []


def test_a_person_registers_allows_and_removes_in_the_shell(server: Server) -> None:
    tenant = new_tenant(server)["slug"]
    as_tenant = ("--tenant", tenant)
    told = ("--name", "forms", "--kind", "mcp", "--url", "https://mcp.example.com/mcp")

    made = server.cli(
        "worker", "register", *told, "--actions", "form.fill",
        "--actions", '{"action": "form.send", "sensitive": true}', "--json", *as_tenant,
    )  # fmt: skip
    allowed = server.cli("capability", "allow", "form.fill", "--worker", "mcp:forms", *as_tenant)
    listed = server.cli("capability", "list", *as_tenant)
    removed = server.cli("worker", "remove", "mcp:forms", *as_tenant)
    gone = server.cli("worker", "remove", "mcp:forms", *as_tenant)

    assert [one["action"] for one in json.loads(made.stdout)["actions"]] == ["form.fill", "form.send"]
    assert "mcp:forms performs form.fill" in allowed.stdout
    assert listed.stdout.count("mcp:forms") == 2
    assert [one.returncode for one in (made, allowed, listed, removed, gone)] == [0, 0, 0, 0, 1]
