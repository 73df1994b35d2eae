from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx
import pytest

from tests.doors.rest.calling import data, new_tenant, org_admin
from tests.harness import Server
from tests.patience import PATIENCE_S


def invite(client: httpx.Client, number: int, role: str = "viewer") -> str:
    body = {"email": f"user{number}@example.com", "name": f"User {number}", "role": role}
    return data(client.post("/api/users", json=body), 201)["id"]


def walk(client: httpx.Client, path: str, **params: Any) -> list[list[str]]:
    """The ids of all pages, following each cursor to the next."""
    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = client.get(path, params=params | cursor)
        pages.append([item["id"] for item in data(answer)])
        following = answer.json()["meta"]["nextCursor"]
        if following is None:
            return pages
        cursor = {"cursor": following}


@pytest.mark.req("GW-006")
def test_all_pages_together_are_the_list_newest_first(server: Server) -> None:
    with org_admin(server, new_tenant(server)["slug"]) as client:
        made = [invite(client, number) for number in range(7)]

        assert walk(client, "/api/users", limit=3) == [made[:3:-1], made[3:0:-1], made[:1]]
        assert walk(client, "/api/users", limit=7) == [made[::-1]]
        assert walk(client, "/api/users", limit=1) == [[each] for each in reversed(made)]
        assert walk(client, "/api/users") == [made[::-1]]


def test_a_walk_neither_loses_nor_repeats_while_others_insert(server: Server) -> None:
    slug, stop = new_tenant(server)["slug"], Event()
    with org_admin(server, slug) as client, org_admin(server, slug) as other, ThreadPoolExecutor(1) as threads:
        made = [invite(client, number) for number in range(25)]

        def insert() -> int:
            number = 1000
            while not stop.is_set():
                invite(other, number)
                number += 1
            return number - 1000

        inserting = threads.submit(insert)
        try:
            walks = [[each for found in walk(client, "/api/users", limit=4) for each in found] for _ in range(5)]
        finally:
            stop.set()
        inserted = inserting.result(PATIENCE_S)

    assert inserted > 0
    for seen in walks:
        assert len(seen) == len(set(seen))
        assert [each for each in seen if each in set(made)] == made[::-1]


def test_a_cursor_outlives_what_it_names(server: Server) -> None:
    with org_admin(server, new_tenant(server)["slug"]) as client:
        made = [invite(client, number) for number in range(4)]
        first = client.get("/api/users", params={"limit": 2})
        cursor = first.json()["meta"]["nextCursor"]
        data(client.delete(f"/api/users/{cursor}"))

        rest = data(client.get("/api/users", params={"limit": 2, "cursor": cursor}))

    assert [item["id"] for item in rest] == [made[1], made[0]]


def test_a_cursor_of_another_tenant_shows_nothing_of_it(server: Server) -> None:
    with (
        org_admin(server, new_tenant(server)["slug"]) as theirs,
        org_admin(server, new_tenant(server)["slug"]) as client,
    ):
        mine = invite(client, 1)
        foreign = invite(theirs, 2)

        assert walk(client, "/api/users", cursor=foreign) == [[mine]]


def test_filters_hold_over_all_pages(server: Server) -> None:
    with org_admin(server, new_tenant(server)["slug"]) as client:
        made = {role: [invite(client, n, role) for n in range(*span)] for role, span in
                {"viewer": (0, 3), "analyst": (3, 6)}.items()}  # fmt: skip
        data(client.post(f"/api/users/{made['analyst'][0]}/disable"))

        assert walk(client, "/api/users", limit=2, role="analyst") == [made["analyst"][:0:-1], made["analyst"][:1]]
        assert walk(client, "/api/users", limit=2, status="disabled") == [made["analyst"][:1]]
        assert walk(client, "/api/users", role="operator") == [[]]


@pytest.mark.req("GW-004")
def test_tenants_and_keys_are_paged_alike(server: Server) -> None:
    slug = new_tenant(server)["slug"]
    with org_admin(server, slug) as client, server.admin() as admin:
        keys = [data(client.post("/api/keys", json={"name": f"k{n}"}), 201)["id"] for n in range(5)]
        tenants = [new_tenant(server)["id"] for _ in range(3)]
        data(client.delete(f"/api/keys/{keys[0]}"))

        assert walk(client, "/api/keys", limit=2) == [keys[:2:-1], keys[2:0:-1]]
        assert walk(client, "/api/keys", limit=3, include_revoked="true") == [keys[:1:-1], keys[1::-1]]
        assert [each for page in walk(admin, "/api/tenant", limit=2) for each in page][:3] == tenants[::-1]
