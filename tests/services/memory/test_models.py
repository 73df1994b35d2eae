"""Which model makes the vectors: an endpoint, another one after it, or none because PostgreSQL keeps no vectors."""

import httpx

from tests.backstage import database_url, sql
from tests.harness import InProcess, Process, Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.memory.embeddings_endpoint import Endpoint, serving
from tests.services.memory.remembering import somebody
from tests.tenants import query, redis_url

_REFUSE_EXTENSIONS = (
    (
        "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'extension \"vector\" is not available'; END $$"
    ),
    (
        "CREATE EVENT TRIGGER no_extensions ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION') "
        "EXECUTE FUNCTION refuse()"
    ),
)


def _with(endpoint: Endpoint, model: str) -> dict[str, str]:
    return {
        "DRAGOMAN_EMBEDDINGS": f"openai:{model}",
        "DRAGOMAN_EMBEDDINGS_BASE_URL": endpoint.url,
        "DRAGOMAN_EMBEDDINGS_API_KEY": "sk-of-the-test",
    }


def _memory_health(server: Server) -> dict[str, str]:
    return httpx.get(f"{server.url}/health", timeout=PATIENCE_S).json()["dependencies"]["memory"]


def test_an_endpoint_gives_the_meaning_and_another_model_takes_over_while_search_goes_on() -> None:
    with serving() as endpoint, Process(_with(endpoint, "rigid"), keep=True) as first:
        ada = somebody(first, tenant="demo")
        with ada.http:
            oolong = ada.add("Oolong at nine.")
            ada.add("The lift is slow.")
            ada.wait_for_meaning()
            found = ada.search("which beverage?", explain=True)

            endpoint.status = 503
            alone = ada.search("oolong or tea?")

        assert next(hit["memory_id"] for hit in found["results"]) == oolong
        assert found["results"][0]["explanation"]["cosine"] > 0.9
        assert (alone["by_meaning"], alone["results"][0]["memory_id"]) == (False, oolong)
        assert endpoint.keys == {"Bearer sk-of-the-test"}
        assert {(asked["model"], asked.get("dimensions")) for asked in endpoint.asked} == {
            ("rigid", 384),
            ("rigid", None),
        }
        first.stop()

        endpoint.status = 200
        endpoint.letting.clear()
        with Process(_with(endpoint, "nested"), at=first.data_dir) as second:
            ada = somebody(second, tenant="demo")
            with ada.http:
                # No vector of the new model is there yet: the words answer, and vectors of the old one do not.
                meanwhile = ada.search("oolong or tea?", explain=True)["results"]
                assert [(hit["memory_id"], hit["explanation"]["cosine"]) for hit in meanwhile] == [(oolong, None)]
                assert ada.search("which beverage?")["results"] == []

                endpoint.letting.set()
                ada.wait_for_meaning()

                assert ada.search("which beverage?")["results"][0]["memory_id"] == oolong
            assert query(second, "SELECT DISTINCT model FROM memory_vectors") == [{"model": "openai:nested"}]


def test_what_an_endpoint_refuses_waits_and_health_says_why() -> None:
    with serving() as endpoint, InProcess(_with(endpoint, "nested")) as server:
        ada = somebody(server, tenant="demo")
        endpoint.status = 401
        with ada.http:
            oolong = ada.add("Oolong at nine.")
            wait_for(lambda: "answered 401" in _memory_health(server).get("detail", ""), "the reason in /health")
            assert ada.contents("oolong") == ["Oolong at nine."]

            endpoint.status = 200
            ada.wait_for_meaning()
            wait_for(lambda: ada.search("which beverage?")["by_meaning"], "the end of the pause")

            assert ada.search("which beverage?")["results"][0]["memory_id"] == oolong
        assert _memory_health(server)["status"] == "up"
        assert "sk-of-the-test" not in server.log.read_text()


def test_a_database_that_refuses_pgvector_serves_words_alone_and_health_says_so(server: Server) -> None:
    sql(server, "CREATE DATABASE without_vectors")
    for statement in _REFUSE_EXTENSIONS:
        sql(server, statement, database="without_vectors")
    url = database_url(server, "without_vectors")

    with InProcess({"DRAGOMAN_DATABASE_URL": url, "DRAGOMAN_REDIS_URL": redis_url(server)}) as plain:
        ada = somebody(plain, tenant="demo")
        with ada.http:
            memory_id = ada.add("Ada drinks oolong.")
            found = ada.search("who drinks oolong")
            health = _memory_health(plain)
            ada.http.delete(f"/api/memories/{memory_id}").raise_for_status()
            gone = ada.search("oolong")

    assert ([hit["memory_id"] for hit in found["results"]], found["by_meaning"]) == ([memory_id], False)
    assert (health["status"], health["detail"]) == ("up", "words alone: PostgreSQL has no pgvector 0.8 or newer")
    assert gone["results"] == []
