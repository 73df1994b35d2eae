"""Who may say what became of an effect in a turn: not its sender as such, but who may steer tasks."""

from collections.abc import Iterator

import pytest

from tests.doors.a2a.calling import A2A, params, state, text
from tests.doors.a2a.conftest import TREE
from tests.doors.rest.calling import problem
from tests.harness import InProcess, Server

DONE = {"effect": {"step": "charge", "done": True, "outcome": {"receipt": "forged"}}}


@pytest.fixture(scope="module")
def paying() -> Iterator[Server]:
    agent = {"DRAGOMAN_AGENT": "tests.doors.a2a.effect_agent:agent", "PYTHONPATH": TREE}
    with InProcess(agent | {"DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "1000000"}) as running:
        yield running


def test_the_sender_of_a_turn_does_not_say_what_became_of_its_effect(paying: Server) -> None:
    owner = A2A(paying, user="olive", role="agent")
    task = owner.send(text("pay"))
    assert state(task) == "INPUT_REQUIRED"

    answer = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params({"data": DONE}, taskId=task["id"])}
    refused = problem(owner.post(answer), 403, "UNAUTHORIZED")
    before = state(owner.get(task["id"]))
    told = A2A(paying, user="rita", role="org_admin").send(params({"data": DONE}, taskId=task["id"]))

    assert refused["details"]["permission"] == "manage:tasks"
    assert (before, state(told)) == ("INPUT_REQUIRED", "COMPLETED")
