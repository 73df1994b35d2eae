"""Cloud accounts: what can be registered, who sees it, how it changes and goes."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-005")
ACCOUNTS = "/api/cloud-accounts"
SUBSCRIPTION = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess() as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return add_tenant(server)


@pytest.fixture
def http(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(role="operator", tenant=slug)) as client:
        yield client


def digits() -> str:
    """An AWS account that no other test has."""
    return str(uuid4().int)[:12]


def aws(**more: Any) -> dict[str, Any]:
    return {"provider": "aws", "identifier": digits(), "name": "Production", **more}


def make(http: httpx.Client, **more: Any) -> dict[str, Any]:
    return data(http.post(ACCOUNTS, json=aws(**more)), 201)


def fields_of(refused: httpx.Response) -> list[str]:
    return [error["field"] for error in problem(refused, 400, "INVALID_PARAMS")["errors"]]


def test_an_account_is_created_shown_listed_changed_and_deleted(http: httpx.Client) -> None:
    given = aws()
    created = http.post(ACCOUNTS, json=given)
    account = data(created, 201)
    place = f"{ACCOUNTS}/{account['id']}"

    assert (created.headers["etag"], created.headers["location"]) == ('"v1"', place)
    assert {name: account[name] for name in given} == given
    assert {name: account[name] for name in ("status", "config", "credential_kind", "credential_status")} == {
        "status": "active", "config": {"export_url": None, "endpoint": None, "region": None},
        "credential_kind": "none", "credential_status": "missing",
    }  # fmt: skip
    assert data(http.get(place)) == account
    assert data(http.get(ACCOUNTS)) == [account]
    renamed = data(http.patch(place, json={"name": "Prod", "status": "disconnected"}, headers={"If-Match": '"v1"'}))
    assert (renamed["name"], renamed["status"], renamed["version"]) == ("Prod", "disconnected", 2)
    assert data(http.get(ACCOUNTS, params={"status": "active"})) == []
    assert data(http.patch(place, json={"status": "active"}))["status"] == "active"
    assert data(http.delete(place)) == {"id": account["id"]}
    problem(http.get(place), 404, "NOT_FOUND")
    problem(http.delete(place), 404, "NOT_FOUND")
    problem(http.patch(place, json={"name": "Back"}), 404, "NOT_FOUND")
    assert data(http.get(ACCOUNTS)) == []
    assert data(http.post(ACCOUNTS, json=given), 201)["id"] != account["id"]


@pytest.mark.parametrize(
    ("provider", "identifier", "kept"),
    [
        ("aws", "000123456789", "000123456789"),
        ("azure", SUBSCRIPTION.upper(), SUBSCRIPTION),
        ("gcp", "acme-prod-1", "acme-prod-1"),
        ("gcp", "01ABCD-234567-89EF01", "01ABCD-234567-89EF01"),
        ("kubernetes", "prod-eu", "prod-eu"),
    ],
)
def test_each_provider_has_identifiers_of_its_own(
    http: httpx.Client, provider: str, identifier: str, kept: str
) -> None:
    created = data(http.post(ACCOUNTS, json=aws(provider=provider, identifier=identifier)), 201)

    assert (created["provider"], created["identifier"]) == (provider, kept)


@pytest.mark.parametrize(
    ("provider", "identifier", "said"),
    [
        ("aws", SUBSCRIPTION, "12 digits"),
        ("aws", "12345678901", "12 digits"),
        ("aws", "1234-5678-9012", "12 digits"),
        ("aws", "١٢٣٤٥٦٧٨٩٠١٢", "12 digits"),
        ("azure", "123456789012", "provider aws"),
        ("azure", SUBSCRIPTION.replace("-", ""), "subscription"),
        ("gcp", "01abcd-234567-89ef01", "billing account"),
        ("gcp", "Acme", "Google Cloud project"),
        ("gcp", SUBSCRIPTION, "provider azure"),
        ("kubernetes", "prod_eu", "DNS label"),
        ("kubernetes", "-prod", "DNS label"),
        ("kubernetes", "p" * 64, "DNS label"),
    ],
)
def test_an_identifier_of_another_form_is_refused_with_the_one_that_is_expected(
    http: httpx.Client, provider: str, identifier: str, said: str
) -> None:
    refused = http.post(ACCOUNTS, json=aws(provider=provider, identifier=identifier))

    assert said in str(problem(refused, 400, "INVALID_PARAMS")["errors"])
    assert data(http.get(ACCOUNTS)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": "oracle"},
        {"name": ""},
        {"name": "a\u200bb"},
        {"surprise": 1},
        {"config": {"password": "x"}},
        {"config": {"export_url": "ftp://exports.example.com/focus.csv"}},
        {"config": {"export_url": "https://ada:secret@exports.example.com/focus.csv"}},
        {"config": {"export_url": "https://exports.example.com/focus.csv?sig=abc"}},
        {"config": {"export_url": "s3://A/focus"}},
        {"config": {"export_url": "s3://a..b/focus"}},
        {"config": {"export_url": "https://exports.example.com/focus.csv", "region": "eu-central-1"}},
        {"config": {"export_url": "s3://acme/focus", "endpoint": "https://minio.example.com/acme"}},
        {"config": {"endpoint": "https://minio.example.com"}},
        {"credential": {}},
        {"credential": {"environment": "CLOUD_X__Y", "file": "aws.json"}},
    ],
)
def test_what_cannot_be_an_account_is_refused(http: httpx.Client, wrong: dict[str, Any]) -> None:
    refused = http.post(ACCOUNTS, json=aws(**wrong))

    assert fields_of(refused)
    assert data(http.get(ACCOUNTS)) == []


def test_an_account_is_registered_once_in_a_tenant_and_again_in_another(server: Server, http: httpx.Client) -> None:
    first = make(http)
    again = http.post(ACCOUNTS, json=aws(identifier=first["identifier"]))

    assert problem(again, 409, "CONFLICT")["details"]["reason"] == "ACCOUNT_TAKEN"
    with server.client(server.token(tenant=add_tenant(server))) as rival:
        data(rival.post(ACCOUNTS, json=aws(identifier=first["identifier"])), 201)


def test_another_tenants_account_looks_missing(server: Server, http: httpx.Client) -> None:
    place = f"{ACCOUNTS}/{make(http)['id']}"

    with server.client(server.token(tenant=add_tenant(server))) as rival:
        assert data(rival.get(ACCOUNTS)) == []
        problem(rival.get(place), 404, "NOT_FOUND")
        problem(rival.patch(place, json={"name": "Mine"}), 404, "NOT_FOUND")
        problem(rival.delete(place), 404, "NOT_FOUND")
    assert data(http.get(place))["name"] == "Production"


def test_a_stale_etag_and_one_that_was_never_given_are_refused(http: httpx.Client) -> None:
    account = make(http)
    place = f"{ACCOUNTS}/{account['id']}"
    data(http.patch(place, json={"name": "First"}, headers={"If-Match": '"v1"'}))

    problem(http.patch(place, json={"name": "Second"}, headers={"If-Match": '"v1"'}), 412, "PRECONDITION_FAILED")
    problem(http.patch(place, json={"name": "Second"}, headers={"If-Match": '"x"'}), 400, "INVALID_PARAMS")

    assert data(http.get(place))["name"] == "First"


def test_a_repeated_request_makes_one_account(http: httpx.Client) -> None:
    given, headers = aws(), {"Idempotency-Key": uuid4().hex}
    first = http.post(ACCOUNTS, json=given, headers=headers)
    again = http.post(ACCOUNTS, json=given, headers=headers)

    assert data(first, 201) == data(again, 201)
    problem(http.post(ACCOUNTS, json=aws(), headers=headers), 409, "IDEMPOTENCY_CONFLICT")


def test_a_list_has_pages_and_filters(http: httpx.Client) -> None:
    made = [make(http)["id"] for _ in range(3)]
    first = http.get(ACCOUNTS, params={"limit": 2}).json()
    rest = http.get(ACCOUNTS, params={"limit": 2, "cursor": first["meta"]["nextCursor"]}).json()

    assert [one["id"] for one in first["data"] + rest["data"]] == made[::-1]
    assert rest["meta"].get("nextCursor") is None
    assert data(http.get(ACCOUNTS, params={"provider": "gcp"})) == []
    problem(http.get(ACCOUNTS, params={"provider": "oracle"}), 400, "INVALID_PARAMS")


def test_viewers_look_and_change_nothing(server: Server, slug: str, http: httpx.Client) -> None:
    place = f"{ACCOUNTS}/{make(http)['id']}"

    with server.client(server.token(role="viewer", tenant=slug)) as viewer:
        assert data(viewer.get(place))["name"] == "Production"
        problem(viewer.post(ACCOUNTS, json=aws()), 403, "UNAUTHORIZED")
        problem(viewer.patch(place, json={"name": "Mine"}), 403, "UNAUTHORIZED")
        problem(viewer.delete(place), 403, "UNAUTHORIZED")


def test_accounts_are_commands_of_the_shell(server: Server, slug: str, http: httpx.Client) -> None:
    account = make(http)

    listed = server.cli("cloud-account", "list", "--tenant", slug)
    added = server.cli(
        "cloud-account",
        "create",
        "--provider",
        "azure",
        "--identifier",
        SUBSCRIPTION,
        "--name",
        "Lab",
        "--tenant",
        slug,
    )
    refused = server.cli(
        "cloud-account", "create", "--provider", "aws", "--identifier", "12", "--name", "Lab", "--tenant", slug
    )

    assert account["identifier"] in listed.stdout
    assert SUBSCRIPTION in added.stdout
    assert (refused.returncode, "12 digits" in refused.stderr) == (1, True)


SLICE = """
INSERT INTO cost_slices (tenant_id, id, account_id, period, part, state, import_id, file_name, file_sha256)
SELECT tenant_id, gen_random_uuid(), id, '2026-10-01', $2, $3, gen_random_uuid(), 'f', 's' FROM cost_accounts
WHERE id = $1"""


def test_the_costs_of_a_deleted_account_are_hidden_with_it_and_an_import_on_its_way_shows_nothing(
    server: Server, http: httpx.Client
) -> None:
    account = make(http)["id"]
    sql(server, SLICE, account, "", "current")
    sql(server, SLICE, account, "part", "loading")

    data(http.delete(f"{ACCOUNTS}/{account}"))

    states = "SELECT state FROM cost_slices WHERE account_id = $1"
    assert [row["state"] for row in sql(server, states, account)] == ["replaced", "replaced"]
    for late in ("INSERT", "UPDATE cost_slices SET state = 'current' WHERE account_id = $1"):
        with pytest.raises(Exception, match="was deleted"):
            sql(server, *((SLICE, account, "late", "loading") if late == "INSERT" else (late, account)))
