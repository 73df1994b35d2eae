"""Closing checklists: validated, patched whole or not at all, and once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.rest.calling import data, problem
from tests.harness import Server
from tests.services.contracts.test_workflow import ended
from tests.services.tasks.envelopes import envelope
from tests.tenants import new_tenant

ENTRIES = {
    "nda": {"title": "Mutual NDA", "stage": "PRE_SIGNING", "status": "FORM_FINAL"},
    "spa": {"title": "Purchase agreement", "stage": "SIGNING", "signatories": [{"party": "Acme"}, {"party": "Globex"}]},
}
PAGE = {"uri": "dragoman://contents/1", "received_at": "2027-01-15T12:00:00Z"}


@pytest.fixture(scope="module")
def http(server: Server) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=new_tenant(server))) as client:
        yield client


@pytest.fixture
def checklist(http: httpx.Client) -> dict[str, Any]:
    made = {"title": "Closing of Globex", "name": uuid4().hex, "matter_id": "m-1", "entries": ENTRIES}
    return data(http.post("/api/checklists", json=made), 201)


def patch(*operations: tuple[str, str, Any], **fields: Any) -> dict[str, Any]:
    listed = [{"op": op, "path": path, "value": value, "rationale": "As told."} for op, path, value in operations]
    return {"patch_id": uuid4().hex, "expected_revision": 1, "operations": listed, **fields}


def validated(http: httpx.Client, checklist: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return data(http.post(f"/api/checklists/{checklist['id']}/validate", json=given))


def make(http: httpx.Client, checklist: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    resource = {"type": "checklist", "id": checklist["name"]}
    return ended(http, envelope("checklist.patch", given, resource=resource))


def with_validation(http: httpx.Client, checklist: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return given | {"validation_id": validated(http, checklist, given)["validation_id"]}


def show(http: httpx.Client, checklist: dict[str, Any]) -> dict[str, Any]:
    return data(http.get(f"/api/checklists/{checklist['id']}"))


SIGNED = (
    ("replace", "/entries/spa/signatories/0/status", "RECEIVED"),
    ("add", "/entries/spa/signatories/0/artifacts/-", PAGE),
    ("replace", "/entries/spa/signatories/1/status", "N_A"),
    ("replace", "/entries/spa/status", "FULLY_EXECUTED"),
)


def test_a_patch_is_validated_made_and_kept_with_its_reasons(http: httpx.Client, checklist: dict[str, Any]) -> None:
    given = with_validation(http, checklist, patch(*SIGNED, source_event="mail of 15 January"))

    made = make(http, checklist, given)

    assert (made["state"], made["result"]["revision"], made["result"]["replayed"]) == ("succeeded", 2, False), made
    now = show(http, checklist)
    assert (now["revision"], now["entries"]["spa"]["status"]) == (2, "FULLY_EXECUTED")
    (kept,) = now["patches"]
    assert (kept["patch_id"], kept["task_id"]) == (given["patch_id"], made["task_id"])
    assert kept["operations"][0]["rationale"] == "As told."


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (("replace", "/entries/spa/status", "FULLY_EXECUTED"), "/entries/spa"),
        (("replace", "/entries/spa/status", "PARTIALLY_SIGNED"), "/entries/spa"),
        (("replace", "/entries/spa/signatories/0/status", "RECEIVED"), "/entries/spa/signatories/0"),
        (("replace", "/entries/spa/status", "DONE"), "/entries/spa/status"),
        (("replace", "/entries/none/status", "DRAFT"), "operations.0.path"),
        (("remove", "/entries/spa/signatories/2", None), "operations.0.path"),
        (("add", "/entries/spa/title/x", 1), "operations.0.path"),
        (("add", "/entries/spa/surprise", 1), "/entries/spa/surprise"),
        (("add", "/entries/new", {"title": "x"}), "/entries/new/stage"),
        (("remove", "/title", None), "/title"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_changed(
    http: httpx.Client, checklist: dict[str, Any], operation: tuple[str, str, Any], field: str
) -> None:
    given = patch(("replace", "/entries/nda/status", "DELIVERED"), operation)

    found = validated(http, checklist, given)

    assert (found["valid"], found["validation_id"]) == (False, None)
    assert [one["field"].replace("operations.1", "operations.0") for one in found["complaints"]] == [field]
    assert show(http, checklist) == checklist


def test_a_patch_that_comes_again_is_the_same_patch_and_another_one_is_a_conflict(
    http: httpx.Client, checklist: dict[str, Any]
) -> None:
    given = with_validation(http, checklist, patch(("replace", "/entries/nda/status", "DELIVERED")))

    first, again = make(http, checklist, given), make(http, checklist, given)
    other = make(http, checklist, given | patch(("remove", "/entries/nda", None), patch_id=given["patch_id"]))

    assert [one["result"]["replayed"] for one in (first, again)] == [False, True]
    assert first["result"]["revision"] == again["result"]["revision"] == 2
    assert (other["state"], other["error"]["details"]["reason"]) == ("failed", "PATCH_CONFLICT")
    assert show(http, checklist)["revision"] == 2


def test_a_validation_is_for_its_patch_its_revision_and_a_while(
    server: Server, http: httpx.Client, checklist: dict[str, Any]
) -> None:
    given = with_validation(http, checklist, patch(("replace", "/entries/nda/status", "DELIVERED")))
    late = with_validation(http, checklist, patch(("replace", "/entries/nda/status", "CIRCULATED")))
    sql(server, "UPDATE checklist_validations SET expires_at = now() WHERE id = $1::text::uuid", late["validation_id"])

    borrowed = make(
        http, checklist, patch(("remove", "/entries/nda", None)) | {"validation_id": given["validation_id"]}
    )
    expired = make(http, checklist, late)
    made = make(http, checklist, given)
    moved = make(http, checklist, with_validation(http, checklist, patch(SIGNED[0], SIGNED[1], expected_revision=2)) | {
        "expected_revision": 1
    })  # fmt: skip

    assert [one["error"]["details"]["reason"] for one in (borrowed, expired, moved)] == [
        "VALIDATION_UNFIT",
        "VALIDATION_UNFIT",
        "REVISION_MOVED",
    ]
    assert (made["state"], show(http, checklist)["revision"]) == ("succeeded", 2)


def test_a_proposed_patch_is_kept_and_changes_nothing(http: httpx.Client, checklist: dict[str, Any]) -> None:
    made = make(http, checklist, patch(("remove", "/entries/nda", None), mode="PROPOSED"))

    now = show(http, checklist)
    assert (made["state"], made["result"]["revision"], now["revision"]) == ("succeeded", 1, 1)
    assert (now["entries"], now["patches"][0]["mode"]) == (checklist["entries"], "PROPOSED")


def test_of_patches_at_once_for_one_revision_one_is_made(http: httpx.Client, checklist: dict[str, Any]) -> None:
    patches = [with_validation(http, checklist, patch(("replace", "/title", f"T{number}"))) for number in range(4)]

    with ThreadPoolExecutor(4) as pool:
        views = list(pool.map(lambda given: make(http, checklist, given), patches))

    assert sorted(one["state"] for one in views) == ["failed", "failed", "failed", "succeeded"]
    assert show(http, checklist)["revision"] == 2


def test_a_patch_without_a_validation_is_refused_at_submission(http: httpx.Client, checklist: dict[str, Any]) -> None:
    given = envelope("checklist.patch", patch(("remove", "/title", None)), resource={"type": "checklist", "id": "x"})

    refused = problem(http.post("/api/tasks", json=given), 400, "INVALID_PARAMS")

    assert [error["field"] for error in refused["errors"]] == ["input"]


def test_a_checklist_is_its_tenants_own(server: Server, checklist: dict[str, Any]) -> None:
    with server.client(server.token(tenant=new_tenant(server))) as rival:
        problem(rival.get(f"/api/checklists/{checklist['id']}"), 404, "NOT_FOUND")
        problem(rival.get(f"/api/checklists/{checklist['name']}"), 404, "NOT_FOUND")
