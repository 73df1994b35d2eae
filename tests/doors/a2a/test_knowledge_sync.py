"""Knowledge from a real remote on disk, with everything that can be wrong in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.a2a.calling import A2A
from tests.doors.a2a.test_knowledge import by_message
from tests.doors.rest.calling import new_tenant
from tests.harness import InProcess, Server
from tests.services.knowledge.remotes import Remote, item


@pytest.fixture(scope="module")
def reading() -> Iterator[Server]:
    """A server that may read repositories of this machine."""
    allowed = {"DRAGOMAN_KNOWLEDGE__ALLOW_FILE_REMOTES": "true", "DRAGOMAN_LIMITS__A2A_TENANT_PER_MIN": "100000",
               "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.2"}  # fmt: skip
    with InProcess(allowed) as running:
        yield running


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path / "remote")


@pytest.fixture
def tenant(reading: Server) -> str:
    return str(new_tenant(reading)["slug"])


def test_sync_brings_items_and_reports_what_is_wrong_with_which_line(
    reading: Server, tenant: str, remote: Remote
) -> None:
    remote.write(
        company__adrs__one=item("Tea", id="one"),
        company__adrs__twin=item("Tea again", id="one"),
        company__adrs__broken="---\ntitle: x\ntags: [\n---\n",
        teams__core__patterns__lost=item("Lost", layer="company", links="[nowhere]"),
        README="not an item",
    )
    call = by_message(A2A(reading, tenant=tenant))

    result = call("knowledge_sync", remote=str(remote.path))

    assert (result["merged"], result["added"]) == (True, 4)
    assert sorted((one["kind"], one["file"], one["line"]) for one in result["conflicts"]) == [
        ("duplicate_pointer", "company/adrs/twin.md", 1),
        ("layer_mismatch", "teams/core/patterns/lost.md", 4),
        ("malformed", "company/adrs/broken.md", 4),
        ("orphaned_pointer", "teams/core/patterns/lost.md", 1),
    ]
    assert {one["id"] for one in call("knowledge_query")["items"]} == {"one", "lost"}


def test_what_changed_against_the_rules_of_life_is_reported(reading: Server, tenant: str, remote: Remote) -> None:
    remote.write(company__adrs__a=item("A"), company__adrs__b=item("B", status="rejected"))
    call = by_message(A2A(reading, tenant=tenant))
    call("knowledge_sync", remote=str(remote.path))
    remote.write(company__adrs__a=item("Another A"), company__adrs__b=item("B"))

    result = call("knowledge_sync")

    assert result["updated"] == 2
    assert [(one["kind"], one["item_id"]) for one in result["conflicts"]] == [
        ("hash_mismatch", "a"),
        ("status_change", "b"),
    ]


@pytest.mark.parametrize(("side", "title"), [("ours", "Coffee"), ("theirs", "Tea")])
def test_a_file_that_both_changed_stops_the_merge_until_a_side_is_taken(
    reading: Server, tenant: str, remote: Remote, side: str, title: str
) -> None:
    remote.write(company__specs__drink=item("Water"))
    call = by_message(A2A(reading, tenant=tenant))
    call("knowledge_sync", remote=str(remote.path))
    call("knowledge_propose", type="spec", id="drink", title="Coffee", content="Coffee it is.")
    call("knowledge_accept", id="drink")
    remote.write(company__specs__drink=item("Tea"), company__specs__food=item("Bread"))

    stopped = call("knowledge_sync")
    untouched = call("knowledge_show", id="drink")["title"]
    taken = call("knowledge_sync", on_conflict=side)

    assert stopped["merged"] is False
    assert [(one["kind"], one["file"]) for one in stopped["conflicts"]] == [
        ("merge_conflict", "company/specs/drink.md")
    ]
    assert untouched == "Coffee"
    assert taken["merged"] is True
    assert call("knowledge_show", id="drink")["title"] == title
    assert call("knowledge_show", id="food")["title"] == "Bread"


def test_a_remote_that_is_not_there_fails_the_task_and_nothing_is_lost(
    reading: Server, tenant: str, remote: Remote, tmp_path: Path
) -> None:
    remote.write(company__adrs__a=item("A"))
    call = by_message(A2A(reading, tenant=tenant))
    call("knowledge_sync", remote=str(remote.path))

    gone = call("knowledge_sync", remote=str(tmp_path / "nothing"))
    branchless = call("knowledge_sync", branch="elsewhere")

    assert {gone["error"]["code"], branchless["error"]["code"]} == {"REMOTE_UNAVAILABLE"}
    assert call("knowledge_show", id="a")["status"] == "accepted"
    assert call("knowledge_sync")["merged"] is True


@pytest.mark.parametrize(
    ("remote", "code"),
    [
        ("http://example.com/x.git", "INVALID_PARAMS"),
        ("nonsense", "INVALID_PARAMS"),
        ("https://127.0.0.1/x.git", "ADDRESS_REFUSED"),
        ("https://me:secret@example.com/x.git", "ADDRESS_REFUSED"),
        ("ssh://git@10.0.0.1/x.git", "ADDRESS_REFUSED"),
        ("git@192.168.0.1:x.git", "ADDRESS_REFUSED"),
    ],
)
def test_an_address_that_must_not_be_reached_is_refused(reading: Server, tenant: str, remote: str, code: str) -> None:
    assert by_message(A2A(reading, tenant=tenant))("knowledge_sync", remote=remote)["error"]["code"] == code


@pytest.mark.parametrize("remote", ["https://127.0.0.2:9/x.git", "ssh://git@127.0.0.2:9/x.git", "git@127.0.0.2:x.git"])
def test_a_host_that_cannot_be_synced_from_is_named(reading: Server, tenant: str, remote: str) -> None:
    error = by_message(A2A(reading, tenant=tenant))("knowledge_sync", remote=remote)["error"]

    assert error["code"] == "REMOTE_UNAVAILABLE"
    assert remote in error["message"]


def test_paths_are_refused_unless_they_are_allowed(a2a: A2A, tmp_path: Path) -> None:
    assert by_message(a2a)("knowledge_sync", remote=str(tmp_path))["error"]["code"] == "INVALID_PARAMS"


def test_only_who_may_accept_may_name_another_remote(reading: Server, tenant: str, remote: Remote) -> None:
    remote.write(company__adrs__a=item("A"))
    agent = by_message(A2A(reading, tenant=tenant, role="agent"))

    refused = agent("knowledge_sync", remote=str(remote.path))
    by_message(A2A(reading, tenant=tenant))("knowledge_sync", remote=str(remote.path))
    again = agent("knowledge_sync")

    assert refused["error"]["code"] == "UNAUTHORIZED"
    assert again["merged"] is True
