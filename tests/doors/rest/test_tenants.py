from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data, fields, fresh, new_tenant, org_admin, problem
from tests.harness import Server, wait_for

pytestmark = pytest.mark.req("GW-004")


def test_a_tenant_lives_from_creation_to_deletion(server: Server) -> None:
    slug = fresh()
    with server.admin() as admin:
        created = admin.post("/api/tenant", json={"name": " Acme  Corp ", "slug": slug, "settings": {"tier": 1}})
        tenant = data(created, 201)
        where = f"/api/tenant/{tenant['id']}"
        renamed = data(admin.patch(where, json={"name": "Acme Two", "plan": "enterprise", "settings": {"a": [1]}}))
        suspended = data(admin.post(f"{where}/suspend"))
        resumed = data(admin.post(f"{where}/resume"))
        deleted = data(admin.delete(where))
        gone = admin.get(where)

    shape = {"version", "id", "slug", "name", "plan", "status", "settings", "created_at", "updated_at"}
    assert set(tenant) == shape
    assert (tenant["name"], tenant["plan"], tenant["status"]) == ("Acme Corp", "standard", "active")
    assert (tenant["settings"], tenant["version"]) == ({"tier": 1}, 1)
    assert (created.headers["location"], created.headers["etag"]) == (where, '"v1"')
    assert (renamed["name"], renamed["plan"], renamed["settings"]) == ("Acme Two", "enterprise", {"a": [1]})
    assert [step["status"] for step in (suspended, resumed, deleted)] == ["suspended", "active", "deleted"]
    assert [step["version"] for step in (renamed, suspended, resumed, deleted)] == [2, 3, 4, 5]
    problem(gone, 404, "NOT_FOUND")


def test_a_tenant_is_found_by_id_and_by_slug(server: Server) -> None:
    tenant = new_tenant(server)

    with server.admin() as admin:
        assert data(admin.get(f"/api/tenant/{tenant['id']}")) == tenant
        assert data(admin.get(f"/api/tenant/{tenant['slug']}")) == tenant


def test_what_an_update_leaves_out_stays(server: Server) -> None:
    tenant = new_tenant(server, settings={"keep": True}, plan="free")

    with server.admin() as admin:
        after = data(admin.patch(f"/api/tenant/{tenant['id']}", json={"name": "Other"}))

    assert after | {"updated_at": None} == tenant | {"name": "Other", "version": 2, "updated_at": None}


def test_a_slug_is_never_given_again(server: Server) -> None:
    tenant = new_tenant(server)
    with server.admin() as admin:
        data(admin.delete(f"/api/tenant/{tenant['id']}"))

        again = admin.post("/api/tenant", json={"name": "Heir", "slug": tenant["slug"]})

    assert problem(again, 409, "CONFLICT")["details"] == {"field": "slug", "reason": "SLUG_TAKEN"}


def test_the_list_is_filtered_by_state_and_plan(server: Server) -> None:
    free, paid, away = new_tenant(server, plan="free"), new_tenant(server, plan="enterprise"), new_tenant(server)
    ended = new_tenant(server)
    with server.admin() as admin:
        data(admin.post(f"/api/tenant/{away['id']}/suspend"))
        data(admin.delete(f"/api/tenant/{ended['id']}"))

        def listed(**filters: str) -> set[str]:
            found = data(admin.get("/api/tenant", params={"limit": "200", **filters}))
            return {item["id"] for item in found} & {each["id"] for each in (free, paid, away, ended)}

        assert listed() == {free["id"], paid["id"], away["id"]}
        assert listed(plan="free") == {free["id"]}
        assert listed(status="suspended") == {away["id"]}
        assert listed(status="deleted") == {ended["id"]}
        assert listed(status="active", plan="enterprise") == {paid["id"]}


def test_an_org_admin_sees_its_own_tenant_alone(server: Server) -> None:
    mine = new_tenant(server)
    new_tenant(server)

    with org_admin(server, mine["slug"]) as client:
        assert data(client.get("/api/tenant")) == [mine]
        assert data(client.get(f"/api/tenant/{mine['slug']}")) == mine


def test_an_org_admin_may_rename_its_tenant_and_no_more(server: Server) -> None:
    mine, before = new_tenant(server), 1
    where = f"/api/tenant/{mine['id']}"

    with org_admin(server, mine["slug"]) as client:
        renamed = data(client.patch(where, json={"name": "Ours", "settings": {"colour": "blue"}}))
        refusals = [
            client.patch(where, json={"plan": "enterprise"}),
            client.post(f"{where}/suspend"),
            client.post(f"{where}/resume"),
            client.delete(where),
            client.post("/api/tenant", json={"name": "Another", "slug": fresh()}),
        ]
        after = data(client.get(where))

    assert (renamed["name"], renamed["version"]) == ("Ours", before + 1)
    for refusal in refusals:
        problem(refusal, 403, "UNAUTHORIZED")
    assert after == renamed


@pytest.mark.parametrize("role", ["operator", "analyst", "viewer", "agent"])
def test_other_roles_have_no_business_with_tenants(server: Server, role: str) -> None:
    with server.client(server.token(role=role)) as client:
        problem(client.get("/api/tenant"), 403, "UNAUTHORIZED")
        problem(client.get("/api/tenant/demo"), 403, "UNAUTHORIZED")
        problem(client.patch("/api/tenant/demo", json={"name": "Mine"}), 403, "UNAUTHORIZED")


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("PATCH", {"name": "Mine"})])
def test_a_foreign_tenant_looks_exactly_like_a_missing_one(
    server: Server, method: str, body: dict[str, Any] | None
) -> None:
    mine, theirs = new_tenant(server), new_tenant(server)
    pairs = [(theirs["id"], str(uuid4())), (theirs["slug"], fresh())]

    with org_admin(server, mine["slug"]) as client:
        for foreign, missing in pairs:
            answers = [client.request(method, f"/api/tenant/{ref}", json=body) for ref in (foreign, missing)]
            assert _faceless(answers[0], foreign) == _faceless(answers[1], missing)


def _faceless(response: httpx.Response, ref: str) -> tuple[Any, ...]:
    body = problem(response, 404, "NOT_FOUND")
    text = response.text.replace(ref, "REF").replace(body["requestId"], "ID")
    names = {name for name in response.headers if name not in ("date", "x-request-id")}
    return response.status_code, text, names


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/tenant/demo/suspend"), ("DELETE", "/api/tenant/demo")])
def test_nobody_takes_away_the_tenant_they_stand_in(server: Server, method: str, path: str) -> None:
    with server.admin() as admin:
        refusal = admin.request(method, path)

        assert problem(refusal, 409, "CONFLICT")["details"]["reason"] == "OWN_TENANT"
        assert data(admin.get("/api/tenant/demo"))["status"] == "active"


def test_a_suspended_tenant_is_refused_at_the_door_until_it_is_resumed(server: Server) -> None:
    tenant = new_tenant(server)
    with server.admin() as admin, org_admin(server, tenant["slug"]) as client:
        data(client.get("/api/me"))

        data(admin.post(f"/api/tenant/{tenant['id']}/suspend"))
        problem(client.get("/api/me"), 401, "UNAUTHENTICATED")
        data(admin.post(f"/api/tenant/{tenant['id']}/resume"))

        wait_for(lambda: client.get("/api/me").status_code == 200, "the tenant to be let in again")


@pytest.mark.parametrize(("verb", "state"), [("suspend", "suspended"), ("resume", "active")])
def test_a_tenant_moves_only_from_the_state_before(server: Server, verb: str, state: str) -> None:
    tenant = new_tenant(server)
    with server.admin() as admin:
        if verb == "suspend":
            data(admin.post(f"/api/tenant/{tenant['id']}/suspend"))

        refusal = admin.post(f"/api/tenant/{tenant['id']}/{verb}")

    assert problem(refusal, 409, "CONFLICT")["details"] == {"state": state, "reason": "WRONG_STATE"}


def test_deleting_a_tenant_removes_its_people_keys_and_kept_answers(server: Server) -> None:
    tenant = new_tenant(server)
    with server.admin() as admin, org_admin(server, tenant["slug"]) as client:
        invited = {"email": "ada@example.com", "name": "Ada"}
        data(client.post("/api/users", json=invited, headers={"idempotency-key": fresh()}), 201)
        data(client.post("/api/keys", json={"name": "nightly"}), 201)

        data(admin.delete(f"/api/tenant/{tenant['id']}"))

    for table in ("users", "api_keys", "idempotency_keys"):
        assert sql(server, f"SELECT 1 FROM {table} WHERE tenant_id::text = $1", tenant["id"]) == []
    assert sql(server, "SELECT 1 FROM audit_records WHERE tenant_id::text = $1", tenant["id"]) != []


@pytest.mark.parametrize("slug", ["A", "a", "-a", "a-", "Acme", "a_b", "a b", "a.b", "é", "a" * 64, "", str(uuid4())])
def test_a_slug_is_short_lower_case_ascii_and_no_id(server: Server, slug: str) -> None:
    with server.admin() as admin:
        refusal = admin.post("/api/tenant", json={"name": "Acme", "slug": slug})

    assert fields(refusal) == ["slug"]


def test_settings_have_at_most_a_hundred_entries(server: Server) -> None:
    entries = {f"k{number}": number for number in range(101)}
    with server.admin() as admin:
        refusal = admin.post("/api/tenant", json={"name": "Acme", "slug": fresh(), "settings": entries})

    assert fields(refusal) == ["settings"]
    entries.popitem()
    assert new_tenant(server, settings=entries)["settings"] == entries
