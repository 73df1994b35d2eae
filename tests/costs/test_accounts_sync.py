"""Syncing accounts: what is new or changed in a bucket is imported, by tasks, once, and every day."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import add_tenant, sql
from tests.costs.exports import packed, row, written
from tests.costs.fake_s3 import FakeStore, fake_s3
from tests.doors.rest.calling import data, problem
from tests.doors.test_secrets import places_of
from tests.harness import InProcess, Server, wait_for
from tests.services.tasks.envelopes import ended
from tests.tenants import beside

pytestmark = pytest.mark.req("GW-005")
ACCOUNTS = "/api/cloud-accounts"
SETTINGS = {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "DRAGOMAN_COSTS__SYNC_S": "0"}
NAMES = ["focus/BILLING_PERIOD=2026-09/a b+ü.csv", "focus/BILLING_PERIOD=2026-09/part-2.csv.gz", "focus/later.csv"]
BILLED = "SELECT coalesce(sum(billed), 0) FROM cost_services_daily JOIN cost_slices s ON s.id = slice_id "


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with InProcess(SETTINGS | {"DRAGOMAN_TASKS__RETRY_BASE_S": "0.01"}) as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return add_tenant(server)


@pytest.fixture
def http(server: Server, slug: str) -> Iterator[httpx.Client]:
    with server.client(server.token(role="operator", tenant=slug)) as client:
        yield client


@pytest.fixture
def store() -> Iterator[FakeStore]:
    first, second = written([row(1)]), packed(written([row(2)]))
    later = written([row(3, BillingPeriodStart="2026-10-01 00:00:00", ChargePeriodStart="2026-10-05T00:00:00Z")])
    objects = dict(zip(NAMES, (first, second, later), strict=True))
    with fake_s3(
        objects={"acme": {**objects, "focus/manifest.json": b"{}", "focus/../x.csv": b"", "other/d.csv": b""}}
    ) as made:
        yield made


def make(http: httpx.Client, store: FakeStore, **more: Any) -> dict[str, Any]:
    config = {"export_url": "s3://acme/focus/", "endpoint": store.url, "region": store.region}
    given = {
        "provider": "aws", "identifier": str(uuid4().int)[:12], "name": "Production", "config": config,
        "credential": {"secret": json.dumps(store.secret)},
    }  # fmt: skip
    return data(http.post(ACCOUNTS, json=given | more), 201)


def synced(http: httpx.Client, account: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The task of a sync, when it and its imports have ended."""
    accepted = data(http.post(f"{ACCOUNTS}/{account['id']}/sync", json=more), 202)
    task = ended(http, accepted["task_id"])
    for one in (task["result"] or {}).get("imports", ()):
        assert ended(http, one["task_id"])["state"] == "succeeded"
    return task


def billed(server: Server, account: dict[str, Any]) -> Decimal:
    return sql(server, f"{BILLED} WHERE s.account_id = $1 AND s.state = 'current'", account["id"])[0][0]


def test_files_are_found_over_pages_imported_and_left_alone_until_they_change(
    server: Server, http: httpx.Client, store: FakeStore
) -> None:
    account = make(http, store)
    first = synced(http, account)
    again = synced(http, account)
    store.objects["acme"][NAMES[0]] = written([row(1, BilledCost="100")])
    changed = synced(http, account)
    everything = synced(http, account, everything=True)
    now = data(http.get(f"{ACCOUNTS}/{account['id']}"))

    assert (first["state"], first["result"]["files"], first["result"]["submitted"]) == ("succeeded", 3, 3)
    assert sorted(one["name"] for one in first["result"]["imports"]) == sorted(NAMES)
    assert (again["result"]["submitted"], again["result"]["unchanged"]) == (0, 3)
    assert [one["name"] for one in changed["result"]["imports"]] == [NAMES[0]]
    assert everything["result"]["submitted"] == 3
    assert billed(server, account) == Decimal("107.20")
    assert (now["status"], now["credential_status"], now["last_error"]) == ("active", "valid", None)
    assert now["last_sync_at"] is not None
    assert places_of(server, store.secret_access_key) == []


def test_one_file_by_https_is_imported_with_its_bearer_token(
    server: Server, http: httpx.Client, store: FakeStore
) -> None:
    store.web["/focus.csv"] = (200, {"etag": '"1"'}, written([row(1)]))
    config = {"export_url": f"{store.url}/focus.csv"}
    account = make(http, store, config=config, credential={"secret": "t0k3n"})

    done, again = synced(http, account), synced(http, account)

    assert [one["name"] for one in done["result"]["imports"]] == ["focus.csv"]
    assert again["result"]["submitted"] == 0
    assert billed(server, account) == Decimal("2.10")
    assert {seen.get("authorization") for seen in store.seen} == {"Bearer t0k3n"}


def test_a_store_that_is_away_is_tried_again_and_what_cannot_be_read_is_not(
    http: httpx.Client, store: FakeStore
) -> None:
    account = make(http, store)
    store.refusal = (503, "SlowDown")
    away = synced(http, account)
    store.refusal = (400, "ExpiredToken")
    expired = synced(http, account)
    now = data(http.get(f"{ACCOUNTS}/{account['id']}"))

    assert (away["state"], away["error"]["code"], away["attempt"]) == ("dead_letter", "UPSTREAM_UNAVAILABLE", 3)
    assert (expired["state"], expired["error"]["code"], expired["attempt"]) == ("failed", "EXPORTS_UNREADABLE", 1)
    assert (now["status"], now["credential_status"], now["last_sync_at"]) == ("error", "expired", None)
    assert "ExpiredToken" in now["last_error"]


def test_accounts_that_are_not_synced_say_why(server: Server, http: httpx.Client, store: FakeStore) -> None:
    bare, stopped = make(http, store, config={}), make(http, store)
    data(http.patch(f"{ACCOUNTS}/{stopped['id']}", json={"status": "disconnected"}))

    for account in (bare, stopped):
        problem(http.post(f"{ACCOUNTS}/{account['id']}/sync", json={}), 409, "EXPORTS_UNREADABLE")
    with server.client(server.token(tenant=add_tenant(server))) as rival:
        problem(rival.post(f"{ACCOUNTS}/{stopped['id']}/sync", json={}), 404, "NOT_FOUND")
    assert store.requests == []


def test_an_export_is_imported_by_its_name_and_a_name_that_is_not_there_fails(
    server: Server, http: httpx.Client, store: FakeStore
) -> None:
    account = make(http, store)
    place = f"{ACCOUNTS}/{account['id']}/import"
    found = data(http.post(place, json={"export": NAMES[2]}), 202)
    missing = data(http.post(place, json={"export": "focus/missing.csv"}), 202)

    assert ended(http, found["task_id"])["state"] == "succeeded"
    assert ended(http, missing["task_id"])["error"]["code"] == "EXPORTS_UNREADABLE"
    assert billed(server, account) == Decimal("4.10")
    problem(http.post(place, json={"export": "a.csv", "url": "https://example.com/a.csv"}), 400, "INVALID_PARAMS")


def test_every_account_is_synced_by_itself_once_over_all_processes(
    server: Server, slug: str, http: httpx.Client, store: FakeStore
) -> None:
    due, stopped = make(http, store), make(http, store)
    data(http.patch(f"{ACCOUNTS}/{stopped['id']}", json={"status": "disconnected"}))
    settings = beside(server) | SETTINGS | {"DRAGOMAN_COSTS__SYNC_S": "86400"}
    syncs = "SELECT id, caller->>'subject' AS who FROM tasks WHERE metadata->>'action' = 'costs.sync'"

    with InProcess(settings), InProcess(settings):
        wait_for(lambda: data(http.get(f"{ACCOUNTS}/{due['id']}"))["last_sync_at"], "the sync")

    tasks = sql(server, f"{syncs} AND tenant_id = (SELECT id FROM tenants WHERE slug = $1)", slug)
    assert [task["who"] for task in tasks] == ["cost-sync"]
    [later] = sql(
        server, "SELECT next_sync_at > now() + interval '23 hours' FROM cost_accounts WHERE id = $1", due["id"]
    )
    assert later[0] is True


def test_a_deleted_account_is_removed_with_everything_that_was_imported(
    server: Server, http: httpx.Client, store: FakeStore
) -> None:
    account = make(http, store)
    synced(http, account)
    before = billed(server, account)

    data(http.delete(f"{ACCOUNTS}/{account['id']}"))

    assert (before > 0, billed(server, account)) == (True, 0)

    def left() -> int:
        # A server that starts looks at once for what is to be removed.
        with InProcess(beside(server) | SETTINGS):
            wait_for(
                lambda: not sql(server, "SELECT 1 FROM cost_slices WHERE account_id = $1", account["id"]), "slices"
            )
        return len(sql(server, "SELECT 1 FROM cost_accounts WHERE id = $1", account["id"]))

    wait_for(lambda: left() == 0, "the row of the account")
    for table in ("cost_exports", "cost_imports"):
        assert sql(server, f"SELECT 1 FROM {table} WHERE account_id = $1", account["id"]) == []
