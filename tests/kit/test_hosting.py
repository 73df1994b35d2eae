"""The same three pieces on the real host: an Agent says who it is, a SkillHandler works, the server does the rest."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doors.a2a.calling import A2A, state, text, tool
from tests.harness import InProcess
from tests.patience import PATIENCE_S
from tests.tenants import new_tenant

ROOT = Path(__file__).parents[2]
HOSTED = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "DRAGOMAN_AGENT": "tests.kit.hosted:agent"}


def keep(caller: A2A, said: str, **fields: Any) -> dict[str, Any]:
    asked = caller.send(text(said, **fields))
    assert state(asked) == "INPUT_REQUIRED"
    return caller.send(text("yes", taskId=asked["id"]))


def told(task: dict[str, Any]) -> dict[str, Any]:
    return task["artifacts"][0]["parts"][0]["data"]


@pytest.mark.req("KIT-3")
def test_the_host_gives_an_agent_http_memory_and_authentication() -> None:
    with InProcess(HOSTED) as host:
        card = httpx.get(f"{host.url}/.well-known/agent-card.json", timeout=PATIENCE_S).json()
        rival_slug = new_tenant(host)
        ada, rival = A2A(host, user="ada"), A2A(host, user="eve", tenant=rival_slug)
        first = keep(ada, "Monday")
        second = keep(ada, "Tuesday", contextId=first["contextId"])
        foreign = keep(rival, "Sunday", contextId=first["contextId"])
        message = {"jsonrpc": "2.0", "id": "1", "method": "SendMessage", "params": text("Who am I?")}
        strangers = [
            httpx.post(f"{host.url}/a2a", json=message, headers=headers, timeout=PATIENCE_S)
            for headers in ({}, {"authorization": "Bearer made-up"})
        ]
        hidden = rival.error("GetTask", {"id": first["id"]})
        for client in (ada, rival):
            client.http.close()

    assert (card["name"], card["description"], card["version"]) == ("diarist", "Writes things down.", "2.1.0")
    assert [skill["description"] for skill in card["skills"] if skill["id"] == "diary"] == ["Keeps a diary."]
    assert told(second) == {
        "caller": "ada",
        "tenant": "demo",
        "instructions": "Be discreet.",
        "pages": ["Monday: yes", "Tuesday: yes"],
    }
    assert (told(foreign)["tenant"], told(foreign)["pages"]) == (rival_slug, ["Sunday: yes"])
    assert [answer.status_code for answer in strangers] == [401, 401]
    assert hidden["data"][0]["reason"] == "TASK_NOT_FOUND"


@pytest.mark.req("A2A-THR-1")
def test_twenty_calls_at_once_in_one_conversation_keep_twenty_notes() -> None:
    with InProcess(HOSTED | {"DRAGOMAN_AGENT": "tests.kit.hosted:notekeeper"}) as host:
        caller = A2A(host, user="ada")
        first = caller.send(tool("add_note", {"text": "first"}))

        def add(number: int) -> int:
            noted = tool("add_note", {"text": f"note {number}"}, contextId=first["contextId"])
            return caller.send(noted)["artifacts"][0]["parts"][0]["data"]

        with ThreadPoolExecutor(max_workers=20) as pool:
            counts = sorted(pool.map(add, range(20)))
        caller.http.close()

    assert counts == list(range(2, 22))
