"""What stands beside the payload of a part: kept as it was said, in the history, by the agent and in what it makes."""

from typing import Any

from tests.doors.a2a.calling import A2A, params

LABELS = {"metadata": {"urn:x:lang": "en", "deep": {"a": [None, 1]}}}
WORDS = {"text": "tck-echo", "mediaType": "text/plain; charset=UTF-8", "filename": "words.txt", **LABELS}
PARTS: list[dict[str, Any]] = [
    WORDS,
    {"data": {"a": None}, "mediaType": "application/json", "filename": "a.json", **LABELS},
    {"data": None, **LABELS},
    {"raw": "eA==", "mediaType": "text/plain", "filename": "x.txt", **LABELS},
    {"url": "https://x.example/y", "mediaType": "text/plain", **LABELS},
    {"text": "bare"},
]


def _older(tag: str) -> list[dict[str, Any]]:
    """The same as the versions before 1.0 have it: they name the type and the name of a file, and of nothing else."""
    return [
        {tag: "text", "text": "tck-echo", **LABELS},
        {tag: "data", "data": {"a": None}, **LABELS},
        {tag: "data", "data": {"value": None}, **LABELS},
        {tag: "file", "file": {"bytes": "eA==", "name": "x.txt", "mimeType": "text/plain"}, **LABELS},
        {tag: "file", "file": {"uri": "https://x.example/y", "mimeType": "text/plain"}, **LABELS},
        {tag: "text", "text": "bare"},
    ]


def test_every_part_comes_back_with_its_labels(a2a: A2A) -> None:
    sent = a2a.send(params(*PARTS))

    for task in (sent, a2a.get(sent["id"])):
        assert task["history"][0]["parts"] == PARTS
        assert task["status"]["message"]["parts"] == PARTS
        assert task["artifacts"][0]["parts"] == PARTS


def test_a_stream_shows_them_too(a2a: A2A) -> None:
    events = [event for _, event in a2a.events("SendStreamingMessage", params(*PARTS))]

    made = [event["artifactUpdate"]["artifact"]["parts"] for event in events if "artifactUpdate" in event]
    assert made == [PARTS]
    assert events[-1]["statusUpdate"]["status"]["message"]["parts"] == PARTS


def test_the_older_views_show_what_their_versions_have(a2a: A2A) -> None:
    task_id = a2a.send(params(*PARTS))["id"]

    body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": task_id}}
    by_03 = a2a.http.post("/a2a", json=body).json()["result"]
    by_01 = a2a.http.get(f"/tasks/{task_id}/get").json()

    for task, tag in ((by_03, "kind"), (by_01, "type")):
        assert task["history"][0]["parts"] == _older(tag)
        assert task["artifacts"][0]["parts"] == _older(tag)


def test_what_an_older_version_sends_keeps_its_metadata(a2a: A2A) -> None:
    parts = [part for part in _older("kind") if part.get("data") != {"value": None}]
    message = {"role": "user", "messageId": "m-1", "kind": "message", "parts": parts}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}

    task = a2a.http.post("/a2a", json=body).json()["result"]

    assert task["artifacts"][0]["parts"] == parts
    assert a2a.get(task["id"])["history"][0]["parts"][0] == {"text": "tck-echo", **LABELS}


def test_another_label_under_the_same_key_is_another_message(a2a: A2A) -> None:
    a2a.send(params(WORDS), **{"Idempotency-Key": "labels-1"})

    error = a2a.error("SendMessage", params({**WORDS, "metadata": {"b": 1}}), **{"Idempotency-Key": "labels-1"})

    assert error["data"][0]["reason"] == "IDEMPOTENCY_CONFLICT"


def test_labels_of_a_wrong_type_are_refused(a2a: A2A) -> None:
    error = a2a.error("SendMessage", params({"text": "a", "filename": 1, "metadata": []}, {"data": 1, "mediaType": 2}))

    fields = {one["field"] for one in error["data"][1]["fieldViolations"]}
    assert fields == {"message.parts[0].filename", "message.parts[0].metadata", "message.parts[1].mediaType"}
