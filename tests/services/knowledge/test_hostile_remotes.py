"""What a remote cannot do to the server that fetches it, nor to the policies in force."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import FileMode

from dragoman.services.knowledge.errors import ItemRefused
from dragoman.services.knowledge.repository import Repository
from tests.backstage import add_tenant
from tests.doors.rest.calling import data, problem
from tests.harness import InProcess, Server
from tests.services.approvals.asking import Office
from tests.services.governance.syncing import policy, sync
from tests.services.knowledge.remotes import Remote, item

TEN = [f"d{number}" for number in range(10)]


@pytest.fixture(scope="module")
def reading() -> Iterator[Server]:
    with InProcess({"DRAGOMAN_KNOWLEDGE__ALLOW_FILE_REMOTES": "true"}) as running:
        yield running


@pytest.fixture
def office(reading: Server) -> Iterator[Office]:
    opened = Office(reading, add_tenant(reading))
    yield opened
    opened.close()


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote(tmp_path / "remote")
    made.write(company__adrs__first=item("First"))
    return made


def commit(remote: Remote, tree: pygit2.Oid) -> None:
    git = pygit2.Repository(str(remote.path))
    ada = pygit2.Signature("ada", "ada@example.com")
    git.create_commit("refs/heads/main", ada, ada, "bomb", tree, [git.head.target])


def add_bomb(remote: Remote, *, levels: int) -> None:
    """A tree of ten trees of ten trees: ten to the power of `levels` files in a few hundred bytes."""
    git = pygit2.Repository(str(remote.path))
    inner, mode = git.create_blob(b"bang"), FileMode.BLOB
    for _ in range(levels):
        builder = git.TreeBuilder()
        for name in TEN:
            builder.insert(name, inner, mode)
        inner, mode = builder.write(), FileMode.TREE
    top = git.TreeBuilder(git.head.peel(pygit2.Tree))
    top.insert("bomb", inner, mode)
    commit(remote, top.write())


def add_depth(remote: Remote, *, depth: int) -> None:
    git = pygit2.Repository(str(remote.path))
    inner, mode = git.create_blob(b"deep"), FileMode.BLOB
    for _ in range(depth):
        builder = git.TreeBuilder()
        builder.insert("d", inner, mode)
        inner, mode = builder.write(), FileMode.TREE
    top = git.TreeBuilder(git.head.peel(pygit2.Tree))
    top.insert("deep", inner, mode)
    commit(remote, top.write())


def test_a_tree_of_more_files_than_bytes_is_refused_before_it_is_merged(office: Office, remote: Remote) -> None:
    data(sync(office, remote))
    add_bomb(remote, levels=6)

    refused = problem(sync(office, remote), 409, "REMOTE_UNAVAILABLE")

    assert refused["details"]["reason"] == "too_much"
    assert data(office.person("ann").get("/api/knowledge/first"))["status"] == "accepted"


def test_folders_too_deep_to_be_named_are_refused(office: Office, remote: Remote) -> None:
    data(sync(office, remote))
    add_depth(remote, depth=5_000)

    refused = problem(sync(office, remote), 409, "REMOTE_UNAVAILABLE")

    assert refused["details"]["reason"] == "too_much"


def test_a_document_that_unpacks_to_far_more_is_not_unpacked(remote: Remote) -> None:
    remote.write(company__adrs__large="x" * (32 << 20))
    repository = Repository.open(remote.path / ".git")
    head = remote.git("rev-parse", "HEAD").strip()
    [blob] = [blob for path, blob in repository.listing(head).items() if path.endswith("large.md")]

    tracemalloc.start()
    with pytest.raises(ItemRefused):
        repository.text(blob, "company/adrs/large.md")
    with pytest.raises(ItemRefused):
        repository.read(head, "company/adrs/large.md")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 1 << 20


def test_a_policy_too_large_to_be_read_forbids_what_it_might_forbid(office: Office, remote: Remote) -> None:
    remote.write(company__policies__large=policy("Large") + "x" * 300_000)

    brought = data(sync(office, remote))
    judged = office.person("ann").post(
        "/api/governance/validate", json={"context": {"action": "contract.sign"}, "target_layer": "company"}
    )

    assert "unreadable_policy" in {one["kind"] for one in brought["conflicts"]}
    assert not data(judged)["valid"]


@pytest.mark.parametrize("trick", ["symlink", "submodule", "other case", "full-width letters"])
def test_a_policy_is_not_ended_by_what_stands_in_its_place(office: Office, remote: Remote, trick: str) -> None:
    """Each of these takes the document away, and is refused like its removal."""
    remote.write(company__policies__eyes=policy("Eyes", approvals="{actions: [knowledge.accept]}"))
    data(sync(office, remote))
    place = remote.path / "company" / "policies" / "eyes.md"
    match trick:
        case "symlink":
            place.unlink()
            place.symlink_to("../adrs/first.md")
        case "submodule":
            remote.git("rm", "-q", "company/policies/eyes.md")
            head = remote.git("rev-parse", "HEAD").strip()
            remote.git("update-index", "--add", "--cacheinfo", f"160000,{head},company/policies/eyes.md")
        case "other case":
            remote.git("mv", "company/policies/eyes.md", "company/policies/EYES.MD")
        case _:
            place.rename(place.with_name("\uff45yes.md"))
    if trick != "submodule":
        remote.git("add", "-A")
    remote.git("commit", "-qm", "trick")

    problem(sync(office, remote), 403, "GOVERNANCE_CONTEXT_REQUIRED")
