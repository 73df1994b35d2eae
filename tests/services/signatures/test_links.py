"""One-time links: somebody without an account signs under a proven address, and does nothing else."""

import base64
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.backstage import sql
from tests.harness import InProcess, Server
from tests.services.signatures.workshop import Workbench, Workshop
from tests.tenants import done, join

Json = dict[str, Any]
JANE = "jane@bigcorp.example"
OUTSIDERS = [{"name": "Jane Doe", "email": JANE}]


@pytest.fixture(scope="module")
def bench(server: Server) -> Iterator[Workbench]:
    workbench = Workbench(server)
    yield workbench
    workbench.close()


@pytest.fixture
def shop(bench: Workbench) -> Workshop:
    workshop = Workshop.of_new_tenant(bench)
    with workshop.client() as boss:
        join(bench.server, boss, "ada", name="Ada")
    return workshop


def sent(shop: Workshop, *signers: Json) -> Json:
    """A request that is out to these signers."""
    draft = shop.request(shop.document(), signers=[*(signers or OUTSIDERS)])
    shop.send(draft)
    return draft


def linked(shop: Workshop, draft: Json, email: str = JANE, **more: Any) -> httpx.Response:
    with shop.client() as boss:
        return boss.post("/api/links", json={"signature_id": draft["signature_id"], "email": email, **more})


def code_of(shop: Workshop, draft: Json) -> str:
    return done(linked(shop, draft))["secret"]


def shown(shop: Workshop, draft: Json) -> Json:
    with shop.client() as boss:
        return done(boss.get(f"/api/signatures/{draft['signature_id']}"))


def test_an_outsider_reads_and_signs_by_a_link_and_everything_says_how(shop: Workshop) -> None:
    """The certificate, every view and the evidence: a link verified the address, and who made it."""
    draft = sent(shop)
    code = code_of(shop, draft)
    with shop.server.client(code) as jane:
        request = done(jane.get("/api/links/request"))
        file = done(jane.get("/api/links/document"))
        answer = done(jane.post("/api/links/sign", json={"document_sha256": file["sha256"], "agree": True}))

    assert (request["name"], request["email"], request["your_turn"]) == ("Jane Doe", JANE, True)
    content = base64.b64decode(file["content"])
    assert request["document_sha256"] == file["sha256"] == hashlib.sha256(content).hexdigest()
    assert (answer["answer"], answer["status"]) == ("signed", "completed")
    with shop.client() as boss:
        report = done(boss.post("/api/signatures/verify", json={"document_id": draft["document_id"]}))
    [found] = report["signatures"]
    assert (report["verdict"], found["signer"], found["email"], found["verified_by"], found["authority"]) == (
        "valid", "Jane Doe", JANE, "link", "this_tenant",
    )  # fmt: skip
    details = shown(shop, draft)
    [signer] = details["signers"]
    assert (signer["verified_by"], signer["link"]["made_by"], signer["state"]) == ("link", "boss", "signed")
    assert signer["verified_at"] is not None
    record = json.loads(details["evidence"][0]["record"])
    verified = record["signer"]["verified"]
    assert (verified["by"], verified["made_by"], verified["link_id"]) == ("link", "boss", signer["link"]["id"])
    assert "could have answered it" in verified["shows"]
    assert record["signer"]["subject"] == f"link:{signer['link']['id']}"
    assert record["governance"]["approvals"][0]["decided_by"] == "boss"


def test_whoever_approves_the_sending_sees_who_signs_by_a_link(shop: Workshop) -> None:
    draft = shop.request(shop.document(), signers=OUTSIDERS)
    given = {"action": "signature.send", "resource": {"type": "signature", "id": draft["signature_id"]},
             "matter_id": "m1", "input": {}}  # fmt: skip
    with shop.client() as boss:
        approval = done(boss.post("/api/approvals", json=given))
        seen = done(boss.get(f"/api/approvals/{approval['approval_id']}"))

    assert '"verified_by": "link"' in json.dumps(seen)
    assert JANE in json.dumps(seen)


def test_a_link_is_for_a_request_that_was_sent_with_an_approval(shop: Workshop) -> None:
    draft = shop.request(shop.document(), signers=OUTSIDERS)
    early = linked(shop, draft).json()
    shop.send(draft)
    sql(shop.server, "UPDATE signatures SET governance = '{}' WHERE id = $1", UUID(draft["signature_id"]))
    unapproved = linked(shop, draft).json()

    assert early["code"] == "SIGNATURE_STATE"
    assert (unapproved["code"], unapproved["details"]["reason"]) == ("CONFLICT", "NOT_APPROVED")


def test_a_link_is_for_nobody_who_has_an_account(shop: Workshop) -> None:
    """Whoever manages signatures cannot sign in the place of a user by making a link for them."""
    draft = sent(shop, *OUTSIDERS, {"name": "Ada", "email": "ada@example.com"})

    answers = [linked(shop, draft, email).json() for email in ("ada@example.com", "eve@example.com")]

    assert [one["code"] for one in answers] == ["INVALID_PARAMS"] * 2


@pytest.mark.parametrize("role", ["operator", "analyst", "viewer", "agent"])
def test_only_those_who_manage_signatures_make_links(shop: Workshop, role: str) -> None:
    draft = sent(shop)
    with shop.client("eve", role) as eve:
        refused = eve.post("/api/links", json={"signature_id": draft["signature_id"], "email": JANE})

    assert refused.status_code == 403


def answered(shop: Workshop, draft: Json) -> str:
    code = code_of(shop, draft)
    with shop.server.client(code) as jane:
        given = {"document_sha256": draft["document_sha256"], "agree": True}
        done(jane.post("/api/links/sign", json=given))
    return code


def expired(shop: Workshop, draft: Json) -> str:
    code = code_of(shop, draft)
    sql(shop.server, "UPDATE signing_links SET expires_at = now() WHERE signature_id = $1",
        UUID(draft["signature_id"]))  # fmt: skip
    return code


def replaced(shop: Workshop, draft: Json) -> str:
    code = code_of(shop, draft)
    code_of(shop, draft)
    return code


def called_off(shop: Workshop, draft: Json) -> str:
    code = code_of(shop, draft)
    shop.perform("signature.void", {"type": "signature", "id": draft["signature_id"]}, {"reason": "not needed"})
    return code


def of_a_suspended_tenant(shop: Workshop, draft: Json) -> str:
    code = code_of(shop, draft)
    with shop.server.admin() as root:
        done(root.post(f"/api/tenant/{shop.tenant}/suspend", json={}))
    return code


CLOSED = {
    "wrong": lambda shop, draft: f"lnk_{code_of(shop, draft)[5:]}",
    "answered": answered,
    "expired": expired,
    "replaced": replaced,
    "called off": called_off,
    "of a suspended tenant": of_a_suspended_tenant,
}


@pytest.mark.parametrize("how", CLOSED)
def test_a_link_that_cannot_be_answered_gets_the_same_answer_whatever_is_wrong(shop: Workshop, how: str) -> None:
    draft = sent(shop, *OUTSIDERS, {"name": "Ada", "email": "ada@example.com"})
    code = CLOSED[how](shop, draft)
    given = {"document_sha256": draft["document_sha256"], "agree": True}

    with shop.server.client(code) as jane:
        answers = [
            jane.get("/api/links/request"),
            jane.get("/api/links/document"),
            jane.post("/api/links/sign", json=given),
            jane.post("/api/links/decline", json={"reason": "no"}),
        ]

    told = {(one.status_code, one.json()["code"], one.json()["detail"]) for one in answers}
    with shop.server.client("lnk_nothing") as stranger:
        unknown = stranger.get("/api/links/request")
    assert told == {(401, "UNAUTHENTICATED", unknown.json()["detail"])}


def test_a_link_is_answered_once_though_many_try_at_the_same_moment(shop: Workshop) -> None:
    draft = sent(shop)
    code = code_of(shop, draft)

    def sign(_: int) -> int:
        with shop.server.client(code) as jane:
            given = {"document_sha256": draft["document_sha256"], "agree": True}
            return jane.post("/api/links/sign", json=given).status_code

    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(sign, range(4)))

    assert statuses == [200, 401, 401, 401]
    assert len(shown(shop, draft)["evidence"]) == 1


def test_a_link_opens_nothing_else(shop: Workshop) -> None:
    """Not even what everybody may: the request itself, who one is, the tools of other doors."""
    draft = sent(shop)
    part = {"data": {"tool": "identity_show", "arguments": {}}}
    message = {"role": "ROLE_USER", "messageId": "m1", "parts": [part]}
    tool = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    with shop.server.client(code_of(shop, draft)) as jane:
        paths = ["/api/me", "/api/signatures", f"/api/signatures/{draft['signature_id']}", "/api/documents",
                 f"/api/documents/{draft['document_id']}/content", "/api/audit"]  # fmt: skip
        statuses = [jane.get(path).status_code for path in paths]
        signing = {"document_sha256": draft["document_sha256"], "agree": True}
        sign = jane.post(f"/api/signatures/{draft['signature_id']}/sign", json=signing)
        link = jane.post("/api/links", json={"signature_id": draft["signature_id"], "email": JANE})
        by_message = jane.post("/a2a", json=tool, headers={"A2A-Version": "1.0"})

    assert {*statuses, sign.status_code, link.status_code} == {403}
    assert "UNAUTHORIZED" in by_message.text or "error" in by_message.json()
    assert "link:" not in by_message.text


def test_others_do_not_answer_a_link_with_credentials_of_their_own(shop: Workshop) -> None:
    sent(shop)
    with shop.server.admin() as root, shop.client() as boss:
        answers = [one.get("/api/links/request") for one in (root, boss)]

    assert [one.status_code for one in answers] == [403, 403]


def test_a_link_signs_what_was_read_in_its_turn_and_says_nothing_of_the_others(shop: Workshop) -> None:
    draft = sent(shop, {"name": "Ada", "email": "ada@example.com"}, {**OUTSIDERS[0], "order": 2})
    with shop.server.client(code_of(shop, draft)) as jane:
        early = jane.post("/api/links/sign", json={"document_sha256": draft["document_sha256"], "agree": True})
        other = jane.post("/api/links/sign", json={"document_sha256": "0" * 64, "agree": True}).json()
        unmeant = jane.post("/api/links/sign", json={"document_sha256": draft["document_sha256"], "agree": False})
        with shop.client("ada", "viewer") as ada:
            given = {"document_sha256": draft["document_sha256"], "agree": True}
            done(ada.post(f"/api/signatures/{draft['signature_id']}/sign", json=given))
        file = done(jane.get("/api/links/document"))
        last = done(jane.post("/api/links/sign", json={"document_sha256": file["sha256"], "agree": True}))

    assert (early.json()["details"]["reason"], "ada@" in early.text) == ("NOT_YOUR_TURN", False)
    assert (other["details"]["reason"], unmeant.status_code) == ("DOCUMENT_MOVED", 400)
    assert last["status"] == "completed"


def test_an_outsider_declines_for_all(shop: Workshop) -> None:
    draft = sent(shop)
    with shop.server.client(code_of(shop, draft)) as jane:
        answer = done(jane.post("/api/links/decline", json={"reason": "the term is too long"}))

    details = shown(shop, draft)
    assert (answer["answer"], details["status"], details["signers"][0]["reason"]) == (
        "declined", "declined", "the term is too long",
    )  # fmt: skip


def test_codes_are_kept_as_hashes_and_making_and_answering_are_in_the_trail(shop: Workshop) -> None:
    draft = sent(shop)
    key = {"Idempotency-Key": "one-link"}
    with shop.client() as boss:
        given = {"signature_id": draft["signature_id"], "email": JANE}
        made, again = (done(boss.post("/api/links", json=given, headers=key)) for _ in range(2))
        with shop.server.client(made["secret"]) as jane:
            done(jane.post("/api/links/decline", json={"reason": "no"}))
        records = done(boss.get("/api/audit", params={"limit": 200}))
        verified = done(boss.post("/api/audit/verify", json={}))

    assert again == made | {"secret": None}
    [row] = sql(shop.server, "SELECT * FROM signing_links WHERE signature_id = $1", UUID(draft["signature_id"]))
    kept = str(dict(row)) + json.dumps(shown(shop, draft)) + json.dumps(records) + shop.server.log.read_text()
    assert made["secret"] not in kept
    actors = {one["operation"]: one["subject"] for one in records}
    assert (actors["link.create"], actors["link.decline"]) == ("boss", f"link:{made['id']}")
    assert verified["ok"]


def test_strangers_with_links_are_limited_by_address() -> None:
    """A good link does not raise the limit: who holds it is a stranger."""
    with InProcess({"DRAGOMAN_LIMITS__IP_PER_MIN": "30"}) as server:
        workbench = Workbench(server)
        shop = Workshop.of_new_tenant(workbench)
        code = code_of(shop, sent(shop))
        with server.client(code) as jane:
            statuses = [jane.get("/api/links/request").status_code for _ in range(40)]
        workbench.close()

    assert {200, 429} == set(statuses)


def test_the_page_of_a_link_needs_no_account_and_lets_nothing_else_in(server: Server) -> None:
    with server.client() as anybody:
        page, script, style = (anybody.get(path) for path in ("/sign", "/sign/page.js", "/sign/page.css"))

    assert [one.status_code for one in (page, script, style)] == [200] * 3
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    assert "<script>" not in page.text
    assert "location.hash" in script.text
