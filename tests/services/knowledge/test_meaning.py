"""Knowledge by its meaning: found without a common word, and never in place of what the words say."""

from typing import Any

import httpx

from tests.harness import Server, wait_for
from tests.tenants import done, new_tenant, query


def propose(client: httpx.Client, title: str, content: str) -> str:
    item = done(client.post("/api/knowledge/propose", json={"type": "adr", "title": title, "content": content}))
    return str(item["id"])


def ask(client: httpx.Client, question: str) -> dict[str, object]:
    found = done(client.post("/api/knowledge/query", json={"query": question}))
    return {"ids": [item["id"] for item in found["items"]], "by_meaning": found["by_meaning"]}


def test_an_item_is_found_by_words_at_once_and_by_meaning_without_a_common_word_soon_after(server: Server) -> None:
    with server.client(server.token(tenant=new_tenant(server))) as client:
        tea = propose(client, "Oolong every morning", "Staff drink it before the stand-up.")
        printer = propose(client, "Printer paper", "The second floor refills the tray on Mondays.")
        assert ask(client, "who refills the printer?")["ids"] == [printer]
        wait_for(lambda: not query(server, "SELECT 1 FROM knowledge_pending LIMIT 1"), "the vectors")

        found = ask(client, "hot beverages for employees at breakfast")

        assert found == {"ids": [tea], "by_meaning": True}
        assert ask(client, "who refills the printer?")["ids"] == [printer]


def test_meaning_stays_within_the_tenant(server: Server) -> None:
    with (
        server.client(server.token(tenant=new_tenant(server))) as ours,
        server.client(server.token(tenant=new_tenant(server))) as theirs,
    ):
        propose(ours, "Oolong every morning", "Staff drink it before the stand-up.")
        wait_for(lambda: not query(server, "SELECT 1 FROM knowledge_pending LIMIT 1"), "the vectors")

        assert ask(theirs, "hot beverages for employees at breakfast")["ids"] == []


def test_nothing_that_was_known_outlives_its_tenant(server: Server) -> None:
    slug = new_tenant(server)
    with server.client(server.token(tenant=slug)) as client:
        propose(client, "Oolong every morning", "Staff drink it before the stand-up.")
    [tenant] = query(server, "SELECT id FROM tenants WHERE slug = $1", slug)
    wait_for(lambda: _rows(server, "knowledge_vectors", tenant["id"]), "the vector")
    repository = server.data_dir / "knowledge" / f"{tenant['id']}.git"
    assert repository.is_dir()

    with server.admin() as platform:
        done(platform.delete(f"/api/tenant/{slug}"))

    for table in ("knowledge_items", "knowledge_vectors", "knowledge_pending", "knowledge_repositories"):
        assert _rows(server, table, tenant["id"]) == 0, table
    wait_for(lambda: not repository.exists(), "the repository to go")


def test_health_tells_how_far_meaning_is_behind(server: Server) -> None:
    with server.client(server.token(tenant=new_tenant(server))) as client:
        propose(client, "Oolong every evening", "Staff drink it after the stand-up.")
    wait_for(lambda: not query(server, "SELECT 1 FROM knowledge_pending LIMIT 1"), "the vectors")

    with server.client() as anybody:
        assert anybody.get("/health").json()["dependencies"]["knowledge"]["status"] == "up"
        query(
            server,
            "INSERT INTO knowledge_pending (tenant_id, blob, taken_until, created_at) VALUES "
            "(gen_random_uuid(), 'lost', now() + interval '1 hour', now() - interval '5 minutes')",
        )
        try:
            told = wait_for(lambda: _degraded(anybody.get("/health").json()), "health to be told")
        finally:
            query(server, "DELETE FROM knowledge_pending WHERE blob = 'lost'")
    assert told.startswith("meaning is ")


def _degraded(health: dict[str, Any]) -> str | None:
    found = health["dependencies"]["knowledge"]
    return found["detail"] if found["status"] == "down" else None


def _rows(server: Server, table: str, tenant: object) -> int:
    [row] = query(server, f"SELECT count(*) AS n FROM {table} WHERE tenant_id = $1", tenant)
    return int(row["n"])
