"""Promotion through the doors: what has earned it goes up, without secrets, and only where no policy objects."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import InProcess, Server, wait_for
from tests.services.memory.remembering import Rememberer, somebody
from tests.tenants import done, new_tenant, query

WHERE = {"session_id": "s1", "project_id": "apollo"}
NO_SALARIES = {
    "operator": "must_not_match", "target": "code", "pattern": "(?i)salary", "applies_to": ["memory/**"],
    "message": "Salaries stay private.",
}  # fmt: skip
HEADER = {"operator": "must_match", "target": "code", "pattern": "Copyright"}
NO_PROMOTION = '@id("nobody-promotes") forbid (principal, action == Action::"memory_promote", resource);'


@pytest.fixture
def ada(server: Server) -> Iterator[Rememberer]:
    """Somebody in a tenant of her own, who may also make its policies."""
    rememberer = somebody(server, role="org_admin")
    with rememberer.http:
        yield rememberer


def promote(who: Rememberer, memory_id: str, **fields: Any) -> dict[str, Any]:
    asked = {"ids": WHERE, "force": True, **fields}
    return done(who.http.post(f"/api/memories/{memory_id}/promote", json=asked))


def enact(who: Rememberer, policy_id: str, **fields: Any) -> None:
    policy = {"type": "policy", "id": policy_id, "title": policy_id, "content": "Why.", **fields}
    done(who.http.post("/api/knowledge/propose", json=policy))
    done(who.http.post(f"/api/knowledge/{policy_id}/accept", json={}))


def test_what_others_will_see_goes_without_secrets_and_personal_data(ada: Rememberer) -> None:
    said = "Apollo's staging password=hunter2 works; ask ada@example.com about it."
    memory_id = ada.add(said, layer="session", ids=WHERE, tags=["ada@example.com", "staging"], metadata={"token": "x"})

    promotion = promote(ada, memory_id)

    assert (promotion["outcome"], promotion["promoted"]) == ("promoted", True)
    assert promotion["redacted"] == ["email", "secret"]
    copy = done(ada.http.get(f"/api/memories/{promotion['promoted_to']}"))
    assert copy["content"] == "Apollo's staging password=[redacted] works; ask [email redacted] about it."
    assert (copy["tags"], copy["metadata"]["token"]) == (["staging"], "[redacted]")
    assert done(ada.http.get(f"/api/memories/{memory_id}"))["content"] == said
    kept = query(ada.server, "SELECT content, metadata::text, tags FROM memories WHERE layer = 'project'")
    assert all("hunter2" not in str(row) and "ada@example.com" not in str(row) for row in kept)


def test_what_is_nothing_but_a_secret_stays_where_it_is(ada: Rememberer) -> None:
    memory_id = ada.add("password=hunter2", layer="session", ids=WHERE)

    promotion = promote(ada, memory_id)

    assert (promotion["outcome"], promotion["promoted"], promotion["promoted_to"]) == ("nothing_left", False, None)
    assert ada.contents("hunter2", layers=["project"], ids=WHERE) == []


def test_from_an_agent_to_its_user_nothing_is_taken_out(ada: Rememberer) -> None:
    memory_id = ada.add("Ada's own address is ada@example.com.", layer="agent", ids={"agent_id": "a1"})

    promotion = promote(ada, memory_id, ids={})

    assert (promotion["layer"], promotion["redacted"]) == ("user", [])
    assert ada.contents("address", layers=["user"]) == ["Ada's own address is ada@example.com."]


def test_a_policy_on_texts_refuses_a_promotion_and_says_why(ada: Rememberer) -> None:
    enact(ada, "no-salaries", constraints=[NO_SALARIES, HEADER])
    about_pay = ada.add("Ivo's salary was raised in May.", layer="session", ids=WHERE)
    harmless = ada.add("Ivo moved to the Apollo team in May.", layer="session", ids=WHERE)

    refused, promoted = promote(ada, about_pay), promote(ada, harmless)

    assert (refused["outcome"], refused["refusals"]) == ("refused", ["no-salaries: Salaries stay private."])
    assert ada.contents("salary", layers=["project"], ids=WHERE) == []
    assert (promoted["outcome"], promoted["policy_version"]) == ("promoted", refused["policy_version"])


def test_a_rule_on_actions_refuses_every_promotion(ada: Rememberer) -> None:
    enact(ada, "no-promotion", constraints=[NO_SALARIES], metadata={"cedar": NO_PROMOTION})
    memory_id = ada.add("Apollo ships on Friday.", layer="session", ids=WHERE)

    refused = promote(ada, memory_id)

    assert refused["outcome"] == "refused"
    assert "nobody-promotes" in refused["refusals"][0]


@pytest.fixture(scope="module")
def promoting() -> Iterator[Server]:
    """A server on which memories go up by themselves."""
    with InProcess({"DRAGOMAN_MEMORY__AUTO_PROMOTE": "true", "DRAGOMAN_EMBEDDINGS": "off"}) as running:
        yield running


def test_what_is_used_often_goes_up_by_itself_once_and_is_on_record(promoting: Server) -> None:
    tenant = new_tenant(promoting)
    ada = somebody(promoting, tenant=tenant)
    with ada.http:
        memory_id = ada.add("Apollo ships on Friday.", layer="session", ids=WHERE, importance=1)
        homeless = ada.add("Zeus ships on Monday.", layer="session", ids={"session_id": "s2"}, importance=1)
        for _ in range(5):
            ada.contents("Apollo ships", layers=["session"], ids=WHERE)
            ada.contents("Zeus ships", layers=["session"], ids={"session_id": "s2"})

        wait_for(lambda: ada.contents("Apollo", layers=["project"], ids=WHERE), "the promotion")

        (hit,) = ada.search("Apollo", layers=["project"], ids=WHERE)["results"]
        assert hit["metadata"] == {"promoted_from": memory_id}
        # No project is known of the other conversation, so it stays.
        noted = query(promoting, "SELECT promotion FROM memories WHERE id = $1::text::uuid", homeless)
        assert noted == [{"promotion": None}]
    with promoting.client(promoting.token(role="org_admin", tenant=tenant)) as admin:
        records = done(admin.get("/api/audit", params={"operation": "memory.promote"}))
    assert [(record["subject"], record["outcome"]) for record in records] == [("auto-promotion", "done")]
