"""The queue of webhooks: in order, retried, dead after three retries, replayed, and whole after a kill."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.backstage import sql
from tests.harness import Process, Server, wait_for
from tests.services.inbox.recorder import TOPIC
from tests.services.inbox.senders import Json, Source
from tests.services.tasks.envelopes import envelope
from tests.test_plugins import installed

pytestmark = pytest.mark.req("GW-104")
ROOT = Path(__file__).parents[3]
UNHELD = b'{"type": "test.recorded", "data": {"text": "000"}}'
HASTY = {"DRAGOMAN_WEBHOOKS__RETRY_BASE_S": "0.01", "DRAGOMAN_TASKS__LEASE_S": "2"}


def with_recorder(site: Path) -> dict[str, str]:
    """Return the environment of a server that has the plugin of these tests."""
    return HASTY | {"PYTHONPATH": f"{installed(site, 'recorder', 'tests.services.inbox.recorder:PLUGIN')}:{ROOT}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(with_recorder(tmp_path_factory.mktemp("site"))) as running:
        yield running


@pytest.fixture
def source(server: Process) -> Source:
    return Source.register(server, account=uuid4().hex)


def event(text: str, **more: Any) -> Json:
    """Return an event that the plugin records."""
    return {"type": TOPIC, "data": {"text": text, **more}}


def recorded(source: Source) -> list[str]:
    """Return what the plugin has recorded of a source, in its order."""
    found = sql(
        source.server,
        "SELECT content FROM memories WHERE content LIKE $1 ORDER BY created_at, id",
        f"{source.shown['account']} %",
    )
    return [row["content"].split(" ")[1] for row in found]


def test_events_of_a_source_are_processed_in_the_order_in_which_they_came(source: Source) -> None:
    names = [f"{number:03}" for number in range(40)]

    for name in names:
        assert source.send(event(name), name).status_code == 202
    ended = source.ended(40)

    assert [one["event_id"] for one in ended] == names
    assert {one["state"] for one in ended} == {"processed"}
    assert recorded(source) == names


def test_an_event_that_has_to_wait_holds_up_its_source_and_no_other(
    server: Process, source: Source, tmp_path: Path
) -> None:
    """A limit of this server is no attempt, however often it is met."""
    key, other = tmp_path / "key", Source.register(server, account=uuid4().hex)
    source.send(event("first", limited=str(key)), "first")
    source.send(event("second"), "second")
    other.send(event("beside"), "beside")
    other.ended(1)
    limited = wait_for(lambda: [one for one in source.events() if one["error"]], "the limit")
    before = recorded(source)

    key.touch()
    ended = source.ended(2)

    assert [(one["event_id"], one["attempts"], one["error"]["code"]) for one in limited] == [
        ("first", 0, "RATE_LIMITED")
    ]
    assert (before, recorded(source)) == ([], ["first", "second"])
    assert [one["attempts"] for one in ended] == [1, 1]


def test_after_three_retries_an_event_is_dead_and_the_next_follows(source: Source, tmp_path: Path) -> None:
    source.send(event("never", needs=str(tmp_path / "nothing")), "never")
    source.send(event("broken", breaks=True), "broken")
    source.send(event("after"), "after")

    never, broken, after = source.ended(3)

    assert (never["state"], never["attempts"], never["error"]["code"]) == ("dead", 4, "UPSTREAM_UNAVAILABLE")
    assert (broken["state"], broken["attempts"], broken["error"]["code"]) == ("dead", 4, "INTERNAL_ERROR")
    assert (after["state"], recorded(source)) == ("processed", ["after"])


def test_what_no_retry_can_cure_is_dead_at_once(source: Source) -> None:
    source.send(event("wrong", wrong=True), "wrong")

    [dead] = source.ended(1)

    assert (dead["state"], dead["attempts"], dead["error"]["code"]) == ("dead", 1, "INVALID_PARAMS")


def test_an_operator_replays_a_dead_event(server: Process, source: Source, tmp_path: Path) -> None:
    key = tmp_path / "key"
    source.send(event("later", needs=str(key)), "later")
    [dead] = source.ended(1)
    path = f"/api/webhook-events/{dead['id']}"
    key.touch()

    with server.client(server.token(role="operator", tenant=source.tenant, user="olga")) as olga:
        replayed = olga.post(f"{path}/replay", json={}).json()["data"]
        [done] = wait_for(lambda: [one for one in source.events() if one["state"] == "processed"], "the event")
        payload = olga.get(path).json()["data"]["payload"]
        trail = source.admin("GET", "/api/audit?operation=webhook_event.replay")

    assert (dead["state"], replayed["state"], done["attempts"]) == ("dead", "received", 1)
    assert (recorded(source), payload["data"]["text"]) == (["later"], "later")
    assert [(record["resource"], record["subject"]) for record in trail] == [(dead["id"], "olga")]


def test_a_processed_event_happens_again_when_it_is_replayed(source: Source) -> None:
    source.send(event("again"), "again")
    [done] = source.ended(1)
    source.admin("POST", f"/api/webhook-events/{done['id']}/replay", {})
    wait_for(lambda: len(source.admin("GET", "/api/audit?operation=memory.add")) == 2, "it to happen again")

    with source.server.client(source.server.token(tenant=source.tenant)) as admin:
        missing = admin.post(f"/api/webhook-events/{uuid4()}/replay", json={})
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")


def test_what_nothing_handles_is_kept_and_shown(source: Source) -> None:
    source.send({"type": "cluster.scaled", "data": {"nodes": 3}}, "scaled")
    source.send(["no", "object"], "list")

    scaled, listed = source.ended(2)

    assert (scaled["topic"], scaled["state"]) == ("cluster.scaled", "ignored")
    assert (listed["topic"], listed["state"]) == ("other", "ignored")
    assert source.admin("GET", f"/api/webhook-events/{scaled['id']}")["payload"]["data"] == {"nodes": 3}


def test_metrics_tell_what_became_of_events_and_what_waits(server: Process, source: Source) -> None:
    source.send(event("wrong", wrong=True), "wrong")
    source.send(event("right"), "right")
    source.ended(2)
    source.post(b"{}", {})

    with server.client() as client:
        told = client.get("/metrics").text

    for line in (
        'dragoman_webhooks_total{outcome="rejected",provider="hmac"}',
        'dragoman_webhooks_total{outcome="accepted",provider="hmac"}',
        'dragoman_webhook_events_total{outcome="processed"}',
        'dragoman_webhook_events_total{outcome="dead"}',
        "dragoman_webhook_queue ",
        "dragoman_webhook_queue_age_seconds ",
    ):
        assert line in told


def test_only_operators_hand_over_the_work_on_a_source(server: Process, source: Source) -> None:
    resource = {"type": "webhook_source", "id": source.id}
    given = envelope("webhook.process", resource=resource, actor={"id": "kim", "type": "agent"})
    answers: list[Any] = []
    for role in ("agent", "operator"):
        with server.client(server.token(role=role, tenant=source.tenant, user="kim")) as kim:
            answers.append(kim.post("/api/tasks", json=given))
    refused, taken = answers

    assert (refused.status_code, refused.json()["code"], taken.status_code) == (403, "UNAUTHORIZED", 201)


def test_nothing_is_lost_or_doubled_when_the_process_is_killed_before_and_while_it_works(tmp_path: Path) -> None:
    held, environment = tmp_path / "held", with_recorder(tmp_path / "site")
    place = tmp_path / "data"
    with Process(environment, at=place) as server:
        source = Source.register(server, account=uuid4().hex)
        # Its effect is done, its end is not written; and the others wait behind it.
        source.send(event("000", holds=str(held)), "000")
        wait_for(held.exists, "the handler to be at work")
        answers = [source.send(event(f"{number:03}"), f"{number:03}") for number in range(1, 20)]
        server.stop(signal.SIGKILL)
    left = [str(one["state"]) for one in _states(server, source)]
    # What held up the first attempt would hold up the next one, too.
    sql(server, "UPDATE webhook_events SET body = $1 WHERE event_id = '000'", UNHELD)

    with Process(environment, at=place) as again:
        source.server = again
        repeated = source.send(event("005"), "005").json()["data"]["duplicate"]
        ended = source.ended(20)

    assert [answer.status_code for answer in answers] == [202] * 19
    assert left == ["received"] * 20
    assert repeated is True
    assert [one["event_id"] for one in ended] == [f"{number:03}" for number in range(20)]
    assert {one["state"] for one in ended} == {"processed"}
    assert recorded(source) == [f"{number:03}" for number in range(20)]


def _states(server: Server, source: Source) -> list[Any]:
    return sql(server, "SELECT state FROM webhook_events WHERE source_id = $1", source.id)
