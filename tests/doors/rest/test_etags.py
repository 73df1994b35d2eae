import pytest

from tests.doors.rest.calling import data, fields, new_tenant, problem
from tests.doors.rest.test_idempotency import together
from tests.harness import Server


@pytest.mark.req("GW-004")
def test_an_update_goes_through_while_its_etag_is_the_present_one(server: Server) -> None:
    tenant = new_tenant(server)
    where = f"/api/tenant/{tenant['id']}"
    with server.admin() as admin:
        tag = admin.get(where).headers["etag"]

        changed = admin.patch(where, json={"name": "Second"}, headers={"if-match": tag})
        stale = admin.patch(where, json={"name": "Third"}, headers={"if-match": tag})

        assert data(changed)["version"] == 2
        assert changed.headers["etag"] == '"v2"'
        assert problem(stale, 412, "PRECONDITION_FAILED")["details"] == {"expected": 1, "current": 2}
        assert data(admin.get(where))["name"] == "Second"


@pytest.mark.req("GW-006")
def test_a_user_has_an_etag_too(server: Server) -> None:
    with server.admin() as admin:
        body = {"email": f"{new_tenant(server)['slug']}@example.com", "name": "Ada"}
        invited = admin.post("/api/users", json=body)
        where = f"/api/users/{data(invited, 201)['id']}"

        data(admin.patch(where, json={"name": "Ada K"}, headers={"if-match": invited.headers["etag"]}))
        stale = admin.patch(where, json={"name": "Ada B"}, headers={"if-match": invited.headers["etag"]})

        problem(stale, 412, "PRECONDITION_FAILED")
        assert data(admin.get(where))["name"] == "Ada K"


def test_no_update_is_lost_when_many_count_on_the_same_etag(server: Server) -> None:
    tenant = new_tenant(server, settings={"count": 0})
    where = f"/api/tenant/{tenant['id']}"
    token = server.token(role="super_admin")

    def add_five(_: int) -> int:
        tries = 0
        with server.client(token) as client:
            for _ in range(5):
                while True:
                    tries += 1
                    seen = client.get(where)
                    settings = {"count": data(seen)["settings"]["count"] + 1}
                    answer = client.patch(
                        where, json={"settings": settings}, headers={"if-match": seen.headers["etag"]}
                    )
                    if answer.status_code == 200:
                        break
                    problem(answer, 412, "PRECONDITION_FAILED")
        return tries

    together(add_five, 8)

    with server.admin() as admin:
        after = data(admin.get(where))
    assert (after["settings"], after["version"]) == ({"count": 40}, 41)


@pytest.mark.parametrize("tag", ["", "*", '"v0"', '"v-1"', '"v1.5"', '"abc"', '"v1", "v2"', '"v99999999999"', "²"])
def test_a_malformed_if_match_is_refused(server: Server, tag: str) -> None:
    tenant = new_tenant(server)
    where = f"/api/tenant/{tenant['id']}"
    with server.admin() as admin:
        refusal = admin.patch(where, json={"name": "Other"}, headers=[(b"if-match", tag.encode("latin-1"))])

        assert fields(refusal) in (["If-Match"], ["expected_version"])
        assert data(admin.get(where)) == tenant


def test_a_condition_that_would_not_be_kept_is_refused(server: Server) -> None:
    """RFC 9110: a method must not be carried out when its If-Match is not true."""
    tenant = new_tenant(server)
    where = f"/api/tenant/{tenant['id']}"
    with server.admin() as admin:
        for method, path in (("DELETE", where), ("POST", f"{where}/suspend")):
            assert fields(admin.request(method, path, headers={"if-match": '"v7"'})) == ["If-Match"]

        assert data(admin.get(where)) == tenant


def test_the_version_is_given_by_the_header_alone(server: Server) -> None:
    tenant = new_tenant(server)
    with server.admin() as admin:
        refusal = admin.patch(f"/api/tenant/{tenant['id']}", json={"name": "Other", "expected_version": 1})

    assert fields(refusal) == ["expected_version"]
