"""Documents over REST, A2A and the shell: kept by hash, in versions, each tenant's own."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.context import Caller, PrincipalType, TenantId
from dragoman.infra.db import Database
from dragoman.infra.ids import new_id
from dragoman.services.contracts.documents import DocumentService
from dragoman.services.contracts.errors import DocumentTooLarge
from dragoman.services.contracts.models import AddDocument
from dragoman.services.contracts.store import PROMISED, DocumentStore
from tests.backstage import database_url, sql
from tests.doors.a2a.calling import A2A
from tests.doors.a2a.tool_calls import by_message
from tests.doors.rest.calling import data, problem
from tests.harness import Server
from tests.services.audit.stating import make_statements
from tests.services.contracts.keeping import DOCX, PDF, add, content_of, docx, encoded, pdf, upload
from tests.tenants import new_tenant


@pytest.fixture(scope="module")
def tenant(server: Server) -> str:
    return new_tenant(server)


@pytest.fixture(scope="module")
def http(server: Server, tenant: str) -> Iterator[httpx.Client]:
    with server.client(server.token(tenant=tenant, user="ada")) as client:
        yield client


def test_a_document_comes_back_as_it_was_with_its_hash(http: httpx.Client) -> None:
    made = data(http.post("/api/documents", json=upload(pdf(), PDF, name="nda", matter_id="m-1")), 201)

    shown = data(http.get(f"/api/documents/{made['id']}"))
    by_name = data(http.get("/api/documents/nda"))

    assert content_of(http, made["id"]) == pdf()
    assert made["sha256"] == hashlib.sha256(pdf()).hexdigest()
    assert (made["state"], made["version"], made["size_bytes"]) == ("draft", 1, len(pdf()))
    assert by_name == shown
    (version,) = shown.pop("versions")
    assert shown == made
    assert (version["kind"], version["made_by"], version["uri"]) == ("uploaded", "ada", made["uri"])


def test_a_new_version_leaves_the_old_one_as_it_was(http: httpx.Client) -> None:
    made = add(http, b"one")
    headers = {"If-Match": '"v1"'}
    change = {"document_id": made["id"], "media_type": "text/plain", "content": encoded(b"two")}

    second = data(http.post("/api/documents", json=change, headers=headers), 201)
    stale = problem(http.post("/api/documents", json=change, headers=headers), 412, "PRECONDITION_FAILED")

    assert (second["id"], second["version"]) == (made["id"], 2)
    assert stale["details"] == {"expected": 1, "current": 2}
    assert [content_of(http, made["id"], version=number) for number in (1, 2)] == [b"one", b"two"]
    assert content_of(http, made["id"]) == b"two"


def test_versions_that_come_at_once_all_get_a_number_of_their_own(http: httpx.Client) -> None:
    made = add(http, b"0")

    def change(number: int) -> int:
        body = {"document_id": made["id"], "media_type": "text/plain", "content": encoded(str(number).encode())}
        return data(http.post("/api/documents", json=body), 201)["version"]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(1, 9)))

    shown = data(http.get(f"/api/documents/{made['id']}"))
    assert [one["version"] for one in shown["versions"]] == list(range(9, 0, -1))
    assert {content_of(http, made["id"], version=number) for number in range(1, 10)} == {
        str(number).encode() for number in range(9)
    }


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"Dear Sir, I am a PDF.", PDF),
        (pdf()[:-20], PDF),
        (b"%PDF-1.4\nstartxref\n0\n%%EOF", PDF),
        (b"%PDF-1.4\nstartxref\n999999999999\n%%EOF", PDF),
        (b"\xff\xfe", "text/markdown"),
        (b"bell \x07", "text/plain"),
        (b"#let x = \x00", "text/x-typst"),
        (pdf(), DOCX),
        (b"PK\x03\x04 and no more", DOCX),
        (b"", "text/plain"),
    ],
)
def test_what_is_not_what_it_says_is_refused(http: httpx.Client, content: bytes, media_type: str) -> None:
    refused = http.post("/api/documents", json=upload(content, media_type))

    assert problem(refused, 400, "DOCUMENT_INVALID")["details"]["media_type"] == media_type


def test_what_is_what_it_says_is_kept(http: httpx.Client) -> None:
    kept = {"text/plain": "Grüße\n".encode(), "text/x-typst": b"= Hello\n", DOCX: docx("Hello")}

    made = {media_type: add(http, content, media_type=media_type) for media_type, content in kept.items()}

    assert {media_type: content_of(http, one["id"]) for media_type, one in made.items()} == kept


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": "not base64!"}, "content"),
        ({"content": "aGVsbG8"}, "content"),
        ({"media_type": "image/png"}, "media_type"),
        ({"title": None}, "title"),
        ({"title": "a\u202eb"}, "title"),
        ({"expected_version": 1}, "expected_version"),
        ({"name": ""}, "name"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_field_is_named(http: httpx.Client, change: dict[str, Any], field: str) -> None:
    refused = http.post("/api/documents", json=upload() | change)

    assert [error["field"] for error in problem(refused, 400, "INVALID_PARAMS")["errors"]] == [field]


def test_a_name_is_given_once(http: httpx.Client) -> None:
    add(http, name="only-one")

    refused = http.post("/api/documents", json=upload(name="only-one"))

    assert problem(refused, 409, "CONFLICT")["details"] == {"reason": "NAME_TAKEN", "name": "only-one"}


def test_an_id_wins_over_a_name_that_looks_like_it(http: httpx.Client) -> None:
    real = add(http, b"real")

    add(http, b"impostor", name=real["id"])

    assert content_of(http, real["id"]) == b"real"


def test_a_document_is_read_in_pieces(http: httpx.Client) -> None:
    made = add(http, b"0123456789", media_type="text/plain")
    at = f"/api/documents/{made['id']}/content"

    pieces = [data(http.get(at, params={"offset": offset, "length": 4})) for offset in (0, 4, 8, 12)]

    assert [(one["content"], one["next_offset"]) for one in pieces] == [
        (encoded(b"0123"), 4),
        (encoded(b"4567"), 8),
        (encoded(b"89"), None),
        ("", None),
    ]


@pytest.mark.req("MKS-TEN-2")
def test_another_tenant_sees_neither_the_document_nor_its_content_nor_that_it_has_the_same(
    server: Server, http: httpx.Client
) -> None:
    ours = add(http, b"our secret", name="secret")
    with server.client(server.token(tenant=new_tenant(server))) as rival:
        for path in ("", "/content"):
            for ref in (ours["id"], "secret"):
                problem(rival.get(f"/api/documents/{ref}{path}"), 404, "NOT_FOUND")
        change = {"document_id": ours["id"], "media_type": "text/plain", "content": encoded(b"x")}
        problem(rival.post("/api/documents", json=change), 404, "NOT_FOUND")

        theirs = add(rival, b"our secret", name="secret")

        assert data(rival.get("/api/documents"))[0]["id"] == theirs["id"] != ours["id"]
    assert len(sql(server, "SELECT 1 FROM document_contents WHERE sha256 = sha256('our secret')")) == 2


def test_a_viewer_reads_and_keeps_nothing(server: Server, http: httpx.Client, tenant: str) -> None:
    made = add(http)

    with server.client(server.token(tenant=tenant, role="viewer", user="eve")) as viewer:
        assert content_of(viewer, made["id"])
        problem(viewer.post("/api/documents", json=upload()), 403, "UNAUTHORIZED")


def test_the_end_of_a_tenant_is_the_end_of_its_documents(server: Server) -> None:
    slug = new_tenant(server)
    with server.client(server.token(tenant=slug)) as client:
        made = add(client)

    with server.admin() as platform:
        data(platform.delete(f"/api/tenant/{slug}"))

    assert sql(server, "SELECT 1 FROM documents WHERE id = $1::text::uuid", made["id"]) == []
    orphans = "SELECT 1 FROM document_contents c JOIN tenants t ON t.id = c.tenant_id WHERE t.slug = $1"
    assert sql(server, orphans, slug) == []


def test_an_agent_keeps_and_reads_documents_over_a2a(server: Server, tenant: str) -> None:
    call = by_message(A2A(server, tenant=tenant, role="agent", user="bot"))

    made = call("document_add", **upload(pdf(), PDF))
    found = call("document_content", document_id=made["id"])
    refused = call("document_add", **upload(b"no", PDF))

    assert found["content"] == encoded(pdf())
    assert refused["error"]["code"] == "DOCUMENT_INVALID"


def test_the_shell_takes_files_and_gives_files(server: Server, tenant: str, tmp_path: Path) -> None:
    (tmp_path / "terms.pdf").write_bytes(pdf())
    target = tmp_path / "back.pdf"

    made = server.cli("document", "add", str(tmp_path / "terms.pdf"), "--tenant", tenant, "--json")
    document = json.loads(made.stdout)
    written = server.cli("document", "content", document["id"], "-o", str(target), "--tenant", tenant)
    shown = server.cli("document", "show", document["id"], "--tenant", tenant)
    missing = server.cli("document", "content", "nothing", "-o", str(tmp_path / "no"), "--tenant", tenant)

    assert (document["title"], document["media_type"]) == ("terms", PDF)
    assert (written.returncode, target.read_bytes()) == (0, pdf()), written.stderr
    assert "uploaded" in shown.stdout
    assert missing.returncode == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.pdf", "terms.pdf"]


def test_an_upload_fits_into_a_request(http: httpx.Client) -> None:
    refused = http.post("/api/documents", json=upload(b"x" * 10_485_760, "text/plain"))

    problem(refused, 413, "PAYLOAD_TOO_LARGE")


@pytest.mark.anyio
async def test_the_operator_says_how_large_a_document_may_be(server: Server) -> None:
    db = Database(database_url(server))
    documents = DocumentService(DocumentStore(db, make_statements(db, PROMISED)), max_bytes=10, new_id=new_id)
    given = AddDocument.model_validate(upload(b"x" * 11, "text/plain"))
    caller = Caller(TenantId(new_id()), "acme", "ada", PrincipalType.USER, frozenset(), "", 0)

    with pytest.raises(DocumentTooLarge) as caught:
        await documents.add(caller, given)

    assert caught.value.details == {"size_bytes": 11, "limit_bytes": 10}
