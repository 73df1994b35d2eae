"""Meaning: found without a common word, never lost on the way, and missed by nobody where there is none."""

import signal

import httpx

from tests.harness import Process, Server, wait_for
from tests.patience import PATIENCE_S
from tests.services.memory.remembering import somebody
from tests.tenants import query


def test_a_memory_is_found_by_its_meaning_without_a_common_word(server: Server) -> None:
    ada = somebody(server)
    with ada.http:
        memory_id = ada.add("Ada drinks oolong every morning.")
        ada.add("The printer on the second floor is out of paper.")
        ada.wait_for_meaning()

        found = ada.search("favourite hot beverage at breakfast", explain=True)

    best = found["results"][0]
    assert (best["memory_id"], found["by_meaning"]) == (memory_id, True)
    assert best["explanation"]["words"] == 0
    assert best["explanation"]["meaning"] > 0.3


def test_what_waits_for_its_vector_outlives_the_server_and_words_alone_are_said_in_health() -> None:
    with Process({"DRAGOMAN_EMBEDDINGS": "off"}) as words:
        ada = somebody(words, tenant="demo")
        with ada.http:
            ada.add("Ada drinks oolong every morning.")
            assert ada.search("oolong")["by_meaning"] is False
        health = httpx.get(f"{words.url}/health", timeout=PATIENCE_S).json()
        assert (health["status"], health["dependencies"]["memory"]["status"]) == ("ok", "up")
        assert health["dependencies"]["memory"]["detail"].startswith("words alone")
        words.stop(signal.SIGKILL)

        with Process(at=words.data_dir) as again:
            wait_for(lambda: query(again, "SELECT 1 FROM memory_vectors"), "the vector of what was added before")
            assert query(again, "SELECT 1 FROM memory_pending") == []
