"""Credentials of cloud accounts: which references a tenant may use, and that a secret is nowhere to be read."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.costs.fake_s3 import FakeStore, fake_s3
from tests.doors.rest.calling import data, problem
from tests.doors.test_secrets import places_of
from tests.harness import InProcess, Server

pytestmark = pytest.mark.req("GW-005")
ACCOUNTS = "/api/cloud-accounts"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("credentials")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[Server]:
    settings = {"DRAGOMAN_COSTS__CREDENTIALS_DIR": str(directory), "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}
    with InProcess(settings) as running:
        yield running


@pytest.fixture
def slug(server: Server, directory: Path) -> str:
    made = add_tenant(server)
    (directory / made).mkdir()
    return made


@pytest.fixture
def http(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(role="operator", tenant=slug)) as client:
        yield client


@pytest.fixture
def store() -> Iterator[FakeStore]:
    with fake_s3(objects={"acme": {"focus/a.csv": b"a", "focus/b.csv.gz": b"b", "focus/notes.txt": b"c"}}) as made:
        yield made


def aws(**more: Any) -> dict[str, Any]:
    return {"provider": "aws", "identifier": str(uuid4().int)[:12], "name": "Production", **more}


def bucket(store: FakeStore, **more: Any) -> dict[str, Any]:
    return {"export_url": "s3://acme/focus/", "endpoint": store.url, "region": store.region, **more}


def make(http: httpx.Client, **more: Any) -> dict[str, Any]:
    return data(http.post(ACCOUNTS, json=aws(**more)), 201)


def verdict(http: httpx.Client, account: dict[str, Any]) -> dict[str, Any]:
    return data(http.post(f"{ACCOUNTS}/{account['id']}/test", json={}))


def variable(slug: str, name: str = "AWS") -> str:
    return f"CLOUD_{slug.upper().replace('-', '_')}__{name}"


def refused_field(http: httpx.Client, credential: dict[str, Any]) -> str:
    refused = http.post(ACCOUNTS, json=aws(credential=credential))
    [error] = problem(refused, 400, "INVALID_PARAMS")["errors"]
    assert data(http.get(ACCOUNTS)) == []
    return error["field"]


def test_a_sealed_credential_works_and_is_nowhere_to_be_read(
    server: Server, http: httpx.Client, store: FakeStore
) -> None:
    secret = store.secret_access_key
    given = aws(config=bucket(store), credential={"secret": json.dumps(store.secret)})
    created = http.post(ACCOUNTS, json=given, headers={"Idempotency-Key": uuid4().hex})
    account = data(created, 201)
    place = f"{ACCOUNTS}/{account['id']}"

    answers = [created, http.post(f"{place}/test", json={}), http.get(place), http.get(ACCOUNTS)]
    wrong = [
        http.post(ACCOUNTS, json=given | {"identifier": "12"}),
        http.post(ACCOUNTS, json=given),
        http.patch(place, json={"credential": {"secret": secret, "file": secret}}),
        http.patch(place, json={"credential": {"environment": secret}}),
        http.post(ACCOUNTS, json=aws(config={"export_url": f"https://u:{secret}@example.com/"})),
    ]

    assert data(answers[1])["passed"] is True
    assert [response.status_code for response in wrong] == [400, 409, 400, 400, 400]
    assert not [response.text for response in (*answers, *wrong) if secret in response.text]
    assert account["credential_kind"] == "sealed"
    assert (account["credential_ref"], account["credential_status"]) == (None, "unverified")
    assert places_of(server, secret) == []
    replaced = data(http.patch(place, json={"credential": {"secret": "{}"}}))
    assert (replaced["credential_status"], replaced["status"]) == ("unverified", "pending_verification")
    assert verdict(http, account)["passed"] is False


def test_a_sealed_credential_opens_for_its_own_account_alone(server: Server, http: httpx.Client) -> None:
    first, second = make(http, credential={"secret": "one"}), make(http, credential={"secret": "two"})
    take = """UPDATE cost_accounts SET credential_sealed = (SELECT credential_sealed FROM cost_accounts WHERE id = $1)
              WHERE id = $2"""
    sql(server, take, first["id"], second["id"])

    found = verdict(http, second)

    assert (found["passed"], found["credential_status"]) == (False, "missing")


def test_a_variable_of_the_tenant_is_a_credential_and_its_name_is_shown(
    http: httpx.Client, slug: str, store: FakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(slug), json.dumps(store.secret))
    account = make(http, config=bucket(store), credential={"environment": variable(slug)})

    found = verdict(http, account)

    assert (account["credential_kind"], account["credential_ref"]) == ("environment", variable(slug))
    assert (found["passed"], found["status"], found["credential_status"]) == (True, "active", "valid")
    assert [check["name"] for check in found["checks"]] == ["credential", "exports"]
    monkeypatch.delenv(variable(slug))
    gone = verdict(http, account)
    assert (gone["passed"], gone["status"], gone["credential_status"]) == (False, "error", "missing")
    assert "not set" in gone["last_error"]


def test_no_other_variable_can_be_named(http: httpx.Client, slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = variable(slug), variable(f"{slug}x")
    names = [
        "PATH",
        "DRAGOMAN_DATABASE_URL",
        "CLOUD_AWS",
        other,
        f"{own}__DEEP",
        f"{own}_",
        own.replace("__AWS", "___AWS"),
        own.lower(),
        f" {own}",
        f"{own}\n",
        variable(f"{slug}--x"),
    ]
    for name in names:
        monkeypatch.setenv(name, "a secret of somebody else")

    assert {refused_field(http, {"environment": name}) for name in names} == {"credential.environment"}
    assert refused_field(http, {"environment": variable(slug, "UNSET")}) == "credential.environment"


def test_a_file_of_the_tenant_is_a_credential(http: httpx.Client, slug: str, directory: Path, store: FakeStore) -> None:
    (directory / slug / "keys").mkdir()
    (directory / slug / "keys" / "aws.json").write_text(json.dumps(store.secret))

    account = make(http, config=bucket(store), credential={"file": "keys/aws.json"})

    assert verdict(http, account)["passed"] is True
    assert account["credential_ref"] == "keys/aws.json"


def test_no_path_leads_out_of_the_directory_of_the_tenant(
    server: Server, http: httpx.Client, slug: str, directory: Path
) -> None:
    rival = add_tenant(server)
    (directory / rival).mkdir()
    (directory / rival / "aws.json").write_text("{}")
    (directory / "top.json").write_text("{}")
    own = directory / slug
    (own / "link.json").symlink_to(directory / rival / "aws.json")
    (own / "linked").symlink_to(directory / rival)
    (own / "folder").mkdir()
    os.mkfifo(own / "pipe")
    (own / "large").write_bytes(b"x" * 20_000)
    (own / "binary").write_bytes(b"\xff\xfe")
    (own / "empty").write_text("\n")
    paths = [
        "../top.json", f"../{rival}/aws.json", "/etc/passwd", "folder/../../top.json", "link.json", "linked/aws.json",
        "./link.json", "folder", "pipe", "large", "binary", "empty", "missing.json", "a\x01b", "..", "a//b",
    ]  # fmt: skip

    assert {refused_field(http, {"file": path}) for path in paths} == {"credential.file"}


def test_without_a_directory_no_file_can_be_named(tmp_path: Path) -> None:
    with InProcess({"DRAGOMAN_COSTS__ENV_PREFIX": ""}) as bare, bare.client(bare.token()) as http:
        assert refused_field(http, {"file": "aws.json"}) == "credential.file"
        assert refused_field(http, {"environment": "CLOUD_DEMO__AWS"}) == "credential.environment"


def test_exports_that_move_to_another_host_need_their_credential_again(http: httpx.Client, store: FakeStore) -> None:
    account = make(http, config=bucket(store), credential={"secret": json.dumps(store.secret)})
    place = f"{ACCOUNTS}/{account['id']}"
    moved = {"export_url": "s3://acme/focus/", "endpoint": "https://evil.example.com"}

    refused = http.patch(place, json={"config": moved})
    within = http.patch(place, json={"config": bucket(store, export_url="s3://acme/other/")})
    again = http.patch(place, json={"config": moved, "credential": {"secret": json.dumps(store.secret)}})

    assert problem(refused, 400, "INVALID_PARAMS")["errors"][0]["field"] == "credential"
    assert data(within)["status"] == "pending_verification"
    assert data(again)["config"]["endpoint"] == "https://evil.example.com"


def test_a_deleted_account_forgets_its_credential(server: Server, http: httpx.Client) -> None:
    account = make(http, credential={"secret": "hidden"})

    data(http.delete(f"{ACCOUNTS}/{account['id']}"))

    [row] = sql(server, "SELECT credential_sealed, credential_kind FROM cost_accounts WHERE id = $1", account["id"])
    assert tuple(row) == (None, "none")
