"""Memories over REST: kept, corrected, expired, forgotten, and seen by nobody else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.harness import Server
from tests.services.memory.remembering import Rememberer, problem, somebody
from tests.tenants import done, new_tenant, query


@pytest.fixture
def ada(server: Server) -> Iterator[Rememberer]:
    """Somebody in a tenant of her own."""
    rememberer = somebody(server)
    with rememberer.http:
        yield rememberer


def test_a_memory_is_found_by_its_words_at_once(ada: Rememberer) -> None:
    memory_id = ada.add("Ada prefers tea in the morning.", tags=["preference"], metadata={"cups": 2})

    found = ada.search("morning tea")

    (hit,) = found["results"]
    assert (hit["memory_id"], hit["layer"], hit["tags"], hit["metadata"]) == (
        memory_id, "user", ["preference"], {"cups": 2},
    )  # fmt: skip
    assert 0.85 < hit["score"] <= 1
    assert (found["total_count"], found["searched_layers"]) == (1, ["user", "company"])


def test_a_correction_ends_a_version_and_the_past_can_still_be_asked(ada: Rememberer) -> None:
    memory_id = ada.add("Ada lives in London.")
    before = datetime.now(UTC).isoformat()
    done(ada.http.post("/api/memories/update", json={"memory_id": memory_id, "content": "Ada lives in Paris."}))

    assert ada.contents("where does Ada live") == ["Ada lives in Paris."]
    assert ada.contents("where does Ada live", as_of=before) == ["Ada lives in London."]
    first, second = done(ada.http.get(f"/api/memories/{memory_id}/history"))["versions"]
    assert (first["content"], second["content"]) == ("Ada lives in London.", "Ada lives in Paris.")
    assert first["valid_to"] == second["valid_from"]
    assert second["valid_to"] is None


def test_what_is_forgotten_leaves_no_word_behind(ada: Rememberer) -> None:
    secret = f"The vault opens with {uuid4().hex}."
    memory_id = ada.add(secret)
    done(ada.http.post("/api/memories/update", json={"memory_id": memory_id, "content": secret + " Still."}))
    ada.wait_for_meaning()

    assert done(ada.http.delete(f"/api/memories/{memory_id}")) == {"memory_id": memory_id, "success": True}

    assert problem(ada.http.get(f"/api/memories/{memory_id}"))["code"] == "NOT_FOUND"
    assert ada.contents("vault") == []
    for table, column in (("memories", "id"), ("memory_vectors", "memory_id"), ("memory_pending", "memory_id")):
        assert query(ada.server, f"SELECT 1 FROM {table} WHERE {column} = $1::text::uuid", memory_id) == []
    kept = query(ada.server, "SELECT body FROM audit_records WHERE operation = 'memory.delete'")
    assert any(memory_id.encode() in row["body"] for row in kept)
    assert not any(secret.encode() in row["body"] for row in kept)


def test_the_same_words_in_the_same_layer_are_one_memory(ada: Rememberer) -> None:
    first = ada.add("The office closes at six.", tags=["hours"])

    again = done(ada.http.post("/api/memories", json={"content": "the office  closes at six.", "tags": ["office"]}))

    assert again == {"memory_id": first, "success": True, "deduplicated": True}
    assert done(ada.http.get(f"/api/memories/{first}"))["tags"] == ["hours", "office"]
    assert ada.add("The office closes at six.", layer="company") != first


def test_a_memory_expires_and_makes_room_for_the_same_words(ada: Rememberer) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    memory_id = ada.add("The lift is out of order.", expires_at=soon)
    query(ada.server, "UPDATE memories SET expires_at = now() WHERE id = $1::text::uuid", memory_id)

    assert ada.contents("lift") == []
    assert ada.add("The lift is out of order.") != memory_id
    assert ada.contents("lift") == ["The lift is out of order."]


def test_filters_tags_and_lists_agree(ada: Rememberer) -> None:
    ada.add("Trip to Rome", tags=["trip", "2025"], metadata={"city": "Rome", "days": 3})
    ada.add("Trip to Oslo", tags=["trip", "2026"], metadata={"city": "Oslo", "days": 7})
    ada.add("Trip to Bonn", tags=["trip"])

    def fits(filters: dict[str, Any]) -> set[str]:
        listed = done(ada.http.post("/api/memories/list", json={"filters": filters}))
        found = ada.contents("trip", filters=filters)
        assert {memory["content"] for memory in listed} == set(found)
        return {content.rpartition(" ")[2] for content in found}

    assert fits({"city": "Rome"}) == {"Rome"}
    assert fits({"metadata.city": {"ne": "Rome"}}) == {"Oslo", "Bonn"}
    assert fits({"days": {"gte": 3, "lt": 7}}) == {"Rome"}
    assert fits({"or": [{"city": {"in": ["Rome", "Oslo"]}}, {"content": {"contains": "BONN"}}]}) == {
        "Rome", "Oslo", "Bonn",
    }  # fmt: skip
    assert fits({"and": [{"tags": {"contains": "trip"}}, {"not": {"tags": "2025"}}]}) == {"Oslo", "Bonn"}
    assert fits({"created_at": {"lt": "2020-01-01"}}) == set()
    assert fits({"city": {"exists": False}}) == {"Bonn"}
    assert set(ada.contents("trip", tags=["trip", "2026"])) == {"Trip to Oslo"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"content": "x", "layer": "galaxy"}, "layer"),
        ("", {"content": "x", "layer": "project"}, "ids.project_id"),
        ("", {"content": "x", "layer": "session"}, "ids.session_id"),
        ("", {"content": " \n"}, "content"),
        ("", {"content": ""}, "content"),
        ("", {"content": "x" * 1_048_576}, "content"),
        ("", {"content": "ß" * 40_000}, "content"),
        ("", {"content": "x", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ("", {"content": "x", "importance": 2}, "importance"),
        ("", {"content": "x", "turn": 3}, "turn"),
        ("", {"content": "x", "metadata": {"a": "b" * 20_000}}, "metadata"),
        ("/bulk", {"memories": []}, "memories"),
        ("/bulk", {"memories": [{"content": "x"}, {"content": ""}]}, "memories.1.content"),
        ("/import", {"memories": [{"content": "x"}, {"text": "y"}]}, "memories.1.content"),
        ("/search", {"query": "x", "threshold": 1.01}, "threshold"),
        ("/search", {"query": "x", "threshold": -0.01}, "threshold"),
        ("/search", {"query": "x", "limit": 0}, "limit"),
        ("/search", {"query": "  "}, "query"),
        ("/search", {"query": "x", "layers": ["team"]}, "ids.team_id"),
        ("/search", {"query": "x", "filters": {"city": {"like": "R%"}}}, "filters.city.like"),
        ("/search", {"query": "x", "filters": {"and": {"city": "Rome"}}}, "filters.and"),
        ("/search", {"query": "x", "filters": {"created_at": {"gt": "yesterday"}}}, "filters.created_at.gt"),
        ("/update", {"content": "x"}, "memory_id"),
        ("/update", {"memory_id": str(uuid4())}, "content"),
    ],
)
def test_bad_input_names_its_field(ada: Rememberer, path: str, body: dict[str, Any], field: str) -> None:
    refusal = ada.refused(f"/api/memories{path}", body)

    assert refusal["code"] == "INVALID_PARAMS"
    assert field in {error["field"] for error in refusal["errors"]}


def test_private_layers_are_their_users_and_shared_ones_the_tenants(server: Server) -> None:
    tenant = new_tenant(server)
    ada, bob = somebody(server, tenant=tenant), somebody(server, user="bob", tenant=tenant)
    program = somebody(server, user="assistant", role="agent", tenant=tenant)
    admin = somebody(server, user="root", role="org_admin", tenant=tenant)
    with ada.http, bob.http, program.http, admin.http:
        private = ada.add("Ada's salary is a secret.")
        ada.add("The salary day is the 25th.", layer="project", ids={"project_id": "hr"})

        assert bob.contents("salary", ids={"project_id": "hr"}) == ["The salary day is the 25th."]
        assert problem(bob.http.get(f"/api/memories/{private}"))["code"] == "NOT_FOUND"
        assert problem(bob.http.get(f"/api/memories/{private}/history"))["code"] == "NOT_FOUND"
        assert problem(bob.http.delete(f"/api/memories/{private}"))["code"] == "NOT_FOUND"
        asked = {"query": "salary", "ids": {"user_id": "ada"}}
        assert bob.refused("/api/memories/search", asked)["code"] == "UNAUTHORIZED"
        assert admin.contents("salary", ids={"user_id": "ada"}) == ["Ada's salary is a secret."]
        assert program.contents("salary", ids={"user_id": "ada"}) == ["Ada's salary is a secret."]


@pytest.mark.req("MKS-TEN-2")
def test_two_tenants_hammered_at_once_see_nothing_of_each_other(server: Server) -> None:
    tenants = [somebody(server, user="ada", role="org_admin") for _ in range(2)]

    def hammer(number: int) -> list[str]:
        me = tenants[number % 2]
        mine = f"rival{number % 2}"
        me.add(f"The common plan of {mine}, part {number}.", layer="company", ids={"company_id": "same"})
        found = me.search("common plan part", ids={"company_id": "same"}, limit=100)
        assert found["total_count"] == len(found["results"])
        return [hit["content"] for hit in found["results"] if mine not in hit["content"]]

    with ThreadPoolExecutor(8) as pool:
        leaked = [content for contents in pool.map(hammer, range(60)) for content in contents]

    assert leaked == []
    for number, me in enumerate(tenants):
        found = me.search("common plan part", ids={"company_id": "same"}, limit=100)
        # Neither the number of hits nor a score tells of the other, who says the same in as many words.
        assert found["total_count"] == 30, number
        me.http.close()


def test_an_ambiguous_correction_lists_the_candidates(ada: Rememberer) -> None:
    tea = ada.add("Ada's favourite tea is Darjeeling.")
    cake = ada.add("Ada's favourite cake is carrot cake.")
    ada.add("The printer is on the second floor.")

    asked = {"query": "Ada's favourite", "content": "Ada's favourite tea is Assam."}
    refusal = ada.refused("/api/memories/update", asked)

    assert (refusal["code"], refusal["details"]["reason"]) == ("CONFLICT", "AMBIGUOUS")
    assert {found["memory_id"] for found in refusal["details"]["candidates"]} == {tea, cake}
    assert all(set(found) == {"memory_id", "content", "layer", "score"} for found in refusal["details"]["candidates"])
    changed = done(ada.http.post("/api/memories/update", json=asked | {"query": "favourite tea Darjeeling"}))
    assert (changed["memory_id"], changed["version"]) == (tea, 2)


def test_a_memory_is_promoted_when_it_has_earned_it(ada: Rememberer) -> None:
    where = {"session_id": "s1", "project_id": "apollo"}
    memory_id = ada.add("Apollo ships on Friday.", layer="session", ids=where, importance=1)

    early = done(ada.http.post(f"/api/memories/{memory_id}/promote", json={"ids": where}))
    query(ada.server, "UPDATE memories SET accesses = 10 WHERE id = $1::text::uuid", memory_id)
    earned = done(ada.http.post(f"/api/memories/{memory_id}/promote", json={"ids": where}))

    assert (early["promoted"], early["score"]) == (False, pytest.approx(0.7, abs=0.01))
    assert (earned["promoted"], earned["layer"]) == (True, "project")
    # The same in both layers: the more specific one stands for both.
    (hit,) = ada.search("when does Apollo ship", ids=where)["results"]
    assert (hit["memory_id"], hit["layer"]) == (memory_id, "session")
    assert [folded["memory_id"] for folded in hit["folded"]] == [earned["promoted_to"]]


def test_an_export_can_be_imported_elsewhere(server: Server, ada: Rememberer) -> None:
    ada.add("Ada prefers tea.", tags=["drink"], metadata={"cups": 2})
    ada.add("The office closes at six.", layer="company", ids={"company_id": "acme"})
    ids = {"company_id": "acme"}
    lines = done(ada.http.post("/api/memories/export", json={"ids": ids}))
    other = somebody(server)

    with other.http:
        first = done(other.http.post("/api/memories/import", json={"memories": lines}))
        second = done(other.http.post("/api/memories/import", json={"memories": lines}))
        copied = done(other.http.post("/api/memories/export", json={"ids": ids}))

    assert (first["added"], second["added"], second["deduplicated"]) == (2, 0, 2)
    told = ("content", "layer", "ids", "tags", "metadata", "valid_from")
    assert sorted([str(line[name]) for name in told] for line in copied) == sorted(
        [str(line[name]) for name in told] for line in lines
    )
    assert {line["source"]["type"] for line in copied} == {"import"}


def test_a_viewer_reads_and_does_not_write(server: Server) -> None:
    viewer = somebody(server, role="viewer")
    with viewer.http:
        assert viewer.refused("/api/memories", {"content": "x"})["code"] == "UNAUTHORIZED"
        assert viewer.search("x")["results"] == []


def test_a_wrong_id_is_told_from_a_missing_one(ada: Rememberer) -> None:
    answers: list[httpx.Response] = [ada.http.get("/api/memories/nonsense"), ada.http.get(f"/api/memories/{uuid4()}")]

    assert [problem(answer)["code"] for answer in answers] == ["INVALID_PARAMS", "NOT_FOUND"]
