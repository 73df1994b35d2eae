"""The embedded provider, from the draft to the last signature, at the doors of a running server."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import typst
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dragoman.errors import DragomanError, InvalidInput
from dragoman.infra.auth.keyring import Keyring
from dragoman.services.contracts.errors import DocumentInvalid, WrongContent
from dragoman.services.signatures.errors import SignatureState
from tests.backstage import sql
from tests.harness import Server
from tests.services.signatures.test_attacks import with_price
from tests.services.signatures.workshop import Crashed, Ledger, Workbench, Workshop
from tests.tenants import done, invite, join

Json = dict[str, Any]
AGREED = {"agree": True}


@pytest.fixture(scope="module")
def bench(server: Server) -> Iterator[Workbench]:
    workbench = Workbench(server)
    yield workbench
    workbench.close()


@pytest.fixture
def shop(bench: Workbench) -> Workshop:
    workshop = Workshop.of_new_tenant(bench)
    with workshop.client() as boss:
        for subject in ("ada", "bob", "eve"):
            join(bench.server, boss, subject, name=subject.title())
    return workshop


def sign(shop: Workshop, signature: Json, user: str, **more: Any) -> Json:
    with shop.client(user, "viewer") as person:
        given = {"document_sha256": signature["document_sha256"], **AGREED, **more}
        return done(person.post(f"/api/signatures/{signature['signature_id']}/sign", json=given))


def refusal(shop: Workshop, signature: Json, user: str, *, role: str = "viewer", **more: Any) -> tuple[int, str, str]:
    with shop.client(user, role) as person:
        given = {"document_sha256": signature["document_sha256"], **AGREED, **more}
        problem = person.post(f"/api/signatures/{signature['signature_id']}/sign", json=given).json()
    return problem["status"], problem["code"], problem.get("details", {}).get("reason", "")


def shown(shop: Workshop, signature: Json) -> Json:
    with shop.client() as boss:
        return done(boss.get(f"/api/signatures/{signature['signature_id']}"))


def verdict(shop: Workshop, pdf: bytes) -> str:
    with shop.client() as boss:
        return done(boss.post("/api/signatures/verify", json={"content": base64.b64encode(pdf).decode()}))["verdict"]


def test_all_signers_sign_as_themselves_and_the_document_is_complete(shop: Workshop) -> None:
    document = shop.document()
    draft = shop.request(document, "ada@example.com", "bob@example.com")
    sent = shop.send(draft)

    first = sign(shop, draft, "ada")
    last = sign(shop, draft, "bob")

    assert [draft["status"], sent["status"], first["status"], last["status"]] == [
        "created", "sent", "signed", "completed",
    ]  # fmt: skip
    pdf = shop.content(document["id"], last["signed_version"])
    assert pdf.startswith(shop.content(document["id"], document["version"]))
    assert verdict(shop, pdf) == "valid"
    assert verdict(shop, pdf[:700] + b"!" + pdf[701:]) == "tampered"
    assert [entry["status"] for entry in shown(shop, draft)["history"]] == ["created", "sent", "signed", "completed"]


def test_a_document_is_signed_only_when_all_have_signed_whatever_its_versions_say(shop: Workshop) -> None:
    """What marking it as executed asks: one good signature of two does not execute a contract."""
    document = shop.document()
    draft = shop.request(document, "ada@example.com", "bob@example.com")
    shop.send(draft)
    service, caller, document_id = shop.bench.core.service, shop.caller(), UUID(document["id"])

    def complete(sha256: str) -> bool:
        return shop.bench.run(service.check(caller, document_id, sha256)).complete

    half = sign(shop, draft, "ada")["signed_sha256"]
    halfway = [complete(half), complete(document["sha256"])]
    whole = sign(shop, draft, "bob")["signed_sha256"]

    assert verdict(shop, shop.content(document["id"], 2)) == "valid"
    assert halfway == [False, False]
    assert [complete(half), complete(document["sha256"]), complete(whole)] == [False, True, True]


def test_signers_at_the_same_moment_all_sign(shop: Workshop) -> None:
    """Each signature is put on top of the one before it, whoever comes first."""
    people = [f"p{number}" for number in range(4)]
    document = shop.document()
    with shop.client() as boss:
        for name in people:
            join(shop.server, boss, name)
    signers = [{"name": name, "email": f"{name}@example.com", "subject": name} for name in people]
    draft = shop.request(document, signers=signers)
    shop.send(draft)

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda name: sign(shop, draft, name)["status"], people))

    assert sorted(statuses) == ["completed", "signed", "signed", "signed"]
    with shop.client() as boss:
        report = done(boss.post("/api/signatures/verify", json={"document_id": document["id"]}))
    assert (report["verdict"], sorted(one["signer"] for one in report["signatures"])) == ("valid", people)
    assert len(shown(shop, draft)["evidence"]) == 4


def test_every_signature_leaves_evidence_that_nobody_can_change(shop: Workshop) -> None:
    """Chained records, signed with the key of the audit trail: who, what, when, and on whose approval."""
    draft = shop.request(shop.document(), "ada@example.com", "bob@example.com")
    shop.send(draft)
    sign(shop, draft, "ada")
    done_at_last = sign(shop, draft, "bob")

    evidence = shown(shop, draft)["evidence"]

    key: Ed25519PublicKey = Keyring.open(shop.server.data_dir / "secrets").audit.public_key()
    for one in evidence:
        key.verify(bytes.fromhex(one["proof"]), one["record"].encode())
    records = [json.loads(one["record"]) for one in evidence]
    assert [record["signer"]["subject"] for record in records] == ["ada", "bob"]
    assert [record["prev_sha256"] for record in records] == [None, evidence[0]["sha256"]]
    assert records[-1]["signed"]["sha256"] == done_at_last["signed_sha256"]
    assert records[-1]["document"]["sha256"] == draft["document_sha256"]
    assert records[0]["governance"]["approvals"][0]["decided_by"] == "boss"


def test_only_the_named_people_sign_each_for_themselves_and_never_a_program(shop: Workshop) -> None:
    draft = shop.request(shop.document(), "ada@example.com")
    shop.send(draft)
    holder = {"name": "robot", "subject": "ada", "role": "viewer", "principal_type": "user"}
    with shop.client() as boss:
        key = done(boss.post("/api/keys", json=holder))["secret"]
    with shop.server.client(key) as robot:
        path = f"/api/signatures/{draft['signature_id']}/sign"
        by_key = robot.post(path, json={"document_sha256": draft["document_sha256"], **AGREED}).json()

    assert refusal(shop, draft, "eve") == (403, "UNAUTHORIZED", "NOT_THE_SIGNER")
    assert refusal(shop, draft, "boss", role="org_admin") == (403, "UNAUTHORIZED", "NOT_THE_SIGNER")
    assert refusal(shop, draft, "ada", role="agent") == (403, "UNAUTHORIZED", "")
    assert (by_key["code"], by_key["details"]["reason"]) == ("UNAUTHORIZED", "NOT_A_PERSON")
    assert sign(shop, draft, "ada")["status"] == "completed"


@pytest.mark.parametrize("email", ["ceo@example.com", "ceo@bigcorp.example"])
def test_a_user_is_not_asked_under_the_address_of_another(shop: Workshop, email: str) -> None:
    """Of a colleague, or of someone whom nobody here knows: the record of the subject decides."""
    with shop.client() as boss:
        join(shop.server, boss, "carla", name="Carla Ceo", email="ceo@example.com", role="org_admin")
    signers = [{"name": "Carla Ceo", "email": email, "subject": "eve"}]

    with pytest.raises(InvalidInput) as caught:
        shop.request(shop.document(), signers=signers)

    assert caught.value.details["errors"][0]["field"] == "input.signers.0.subject"


def test_a_certificate_names_the_user_as_the_record_does(shop: Workshop) -> None:
    document = shop.document()
    draft = shop.request(document, signers=[{"name": "Carla Ceo", "email": "ada@example.com"}])
    shop.send(draft)

    signed = sign(shop, draft, "ada")

    with shop.client() as boss:
        report = done(boss.post("/api/signatures/verify", json={"document_id": document["id"]}))
    assert [(one["signer"], one["email"]) for one in report["signatures"]] == [("Ada", "ada@example.com")]
    shown_signers = [draft["signers"][0], signed["signers"][0]]
    assert [(one["name"], one["subject"], one["verified_by"]) for one in shown_signers] == [
        ("Ada", "ada", "user_record")
    ] * 2
    verified = json.loads(shown(shop, draft)["evidence"][0]["record"])["signer"]["verified"]
    assert (verified["by"], verified["subject"]) == ("user_record", "ada")


def test_only_a_user_who_came_and_was_not_renamed_since_signs(shop: Workshop) -> None:
    """What was approved names somebody; whose record says something else by now is not that one."""
    with shop.client() as boss:
        newcomer = invite(boss, "newcomer")
        users = {one["subject"]: one for one in done(boss.get("/api/users"))}
        expected = shop.request(shop.document(), "newcomer@example.com")
        renamed = shop.request(shop.document(), "bob@example.com")
        shop.send(expected)
        shop.send(renamed)
        done(boss.patch(f"/api/users/{users['bob']['id']}", json={"name": "Carla Ceo"}))

        early = refusal(shop, expected, "newcomer")
        with shop.server.client(newcomer["invitation"]) as code:
            done(code.post("/api/users/accept", json={}))

    assert expected["signers"][0]["verified_at"] is None
    assert early == (403, "UNAUTHORIZED", "SIGNER_NOT_VERIFIED")
    assert sign(shop, expected, "newcomer")["status"] == "completed"
    assert refusal(shop, renamed, "bob") == (409, "CONFLICT", "SIGNER_CHANGED")


def test_a_request_of_an_earlier_release_that_names_another_is_not_signed(shop: Workshop) -> None:
    """Requests that were prepared before names were looked up are held to the same rule."""
    draft = shop.request(shop.document(), "eve@example.com")
    shop.send(draft)
    signers = [{"name": "Carla Ceo", "email": "ceo@example.com", "role": "signer", "order": 1, "subject": "eve",
                "state": "pending", "at": None, "reason": None}]  # fmt: skip
    sql(shop.server, "UPDATE signatures SET signers = $2 WHERE id = $1", UUID(draft["signature_id"]),
        json.dumps(signers))  # fmt: skip

    assert refusal(shop, draft, "eve") == (409, "CONFLICT", "SIGNER_CHANGED")


def test_somebody_without_a_user_record_does_not_sign_by_being_called_so(shop: Workshop) -> None:
    draft = shop.request(shop.document(), "jane@bigcorp.example")
    shop.send(draft)

    assert (draft["signers"][0]["verified_by"], draft["signers"][0]["verified_at"]) == ("link", None)
    assert refusal(shop, draft, "jane@bigcorp.example") == (403, "UNAUTHORIZED", "SIGNER_NOT_VERIFIED")


def test_nobody_signs_what_they_have_not_read_or_twice_or_before_their_turn(shop: Workshop) -> None:
    document = shop.document()
    signers = [
        {"name": "Ada", "email": "ada@example.com", "order": 1},
        {"name": "Bob", "email": "bob@example.com", "order": 2},
        {"name": "Eve", "email": "eve@example.com", "role": "cc"},
    ]
    draft = shop.request(document, signers=signers)

    assert refusal(shop, draft, "ada") == (409, "SIGNATURE_STATE", "")
    shop.send(draft)
    assert refusal(shop, draft, "bob") == (409, "CONFLICT", "NOT_YOUR_TURN")
    assert refusal(shop, draft, "ada", document_sha256="0" * 64) == (409, "CONFLICT", "DOCUMENT_MOVED")
    assert refusal(shop, draft, "ada", agree=False)[1] == "INVALID_PARAMS"
    assert refusal(shop, draft, "eve")[2] == "NOT_THE_SIGNER"
    assert sign(shop, draft, "ada")["status"] == "signed"
    assert refusal(shop, draft, "ada") == (409, "SIGNATURE_STATE", "")
    assert sign(shop, draft, "bob")["status"] == "completed"


def test_what_waits_for_a_person_is_found_by_them_alone(shop: Workshop) -> None:
    draft = shop.request(shop.document(), "ada@example.com")
    shop.request(shop.document("= Another"), "ada@example.com")
    shop.send(draft)

    def waiting(user: str) -> list[str]:
        with shop.client(user, "viewer") as person:
            return [one["id"] for one in done(person.get("/api/signatures", params={"mine": True}))]

    assert (waiting("ada"), waiting("bob")) == ([draft["signature_id"]], [])
    sign(shop, draft, "ada")
    assert waiting("ada") == []


def test_who_declines_ends_it_for_all_and_the_document_is_a_draft_again(shop: Workshop) -> None:
    document = shop.document()
    draft = shop.request(document, "ada@example.com", "bob@example.com")
    shop.send(draft)
    with shop.client("bob", "viewer") as bob:
        path = f"/api/signatures/{draft['signature_id']}/decline"
        declined = done(bob.post(path, json={"reason": "the term is too long"}))
    with shop.client() as boss:
        state = done(boss.get(f"/api/documents/{document['id']}"))["state"]

    assert (declined["status"], declined["signers"][1]["reason"], state) == (
        "declined",
        "the term is too long",
        "draft",
    )
    assert refusal(shop, draft, "ada")[1] == "SIGNATURE_STATE"


def test_an_organisation_seals_what_it_sends_once_however_often_its_worker_dies(shop: Workshop) -> None:
    document = shop.document()
    draft = shop.request(document, seal=True)
    ledger, task = Ledger(), sql(shop.server, "SELECT gen_random_uuid() AS id")[0]["id"]
    ledger.crashes = True
    with pytest.raises(Crashed):
        shop.send(draft, task=task, ledger=ledger)

    sent = shop.send(draft, task=task, ledger=ledger)

    details = shown(shop, draft)
    assert (sent["status"], sent["signed_version"], len(details["evidence"])) == ("completed", 2, 1)
    with shop.client() as boss:
        report = done(boss.post("/api/signatures/verify", json={"document_id": document["id"]}))
    assert (report["verdict"], [one["signer"] for one in report["signatures"]]) == ("valid", [shop.tenant])
    record = json.loads(details["evidence"][0]["record"])
    assert record["certificate_sha256"] == report["signatures"][0]["certificate_sha256"]


def test_a_request_is_voided_once_when_its_worker_dies_before_that_is_recorded(shop: Workshop) -> None:
    draft = shop.request(shop.document(), "ada@example.com")
    shop.send(draft)
    ledger, task, resource = Ledger(), uuid4(), {"type": "signature", "id": draft["signature_id"]}
    ledger.crashes = True
    with pytest.raises(Crashed):
        shop.perform("signature.void", resource, {"reason": "not needed"}, task=task, ledger=ledger)
    between = shown(shop, draft)["status"]

    voided = shop.perform("signature.void", resource, {"reason": "not needed"}, task=task, ledger=ledger).output

    assert (between, voided["status"]) == ("sent", "voided")
    assert [step["status"] for step in shown(shop, draft)["history"]] == ["created", "sent", "voided"]
    assert refusal(shop, draft, "ada")[1] == "SIGNATURE_STATE"


def test_a_request_is_sent_by_one_task_alone_and_not_after_it_was_voided(shop: Workshop) -> None:
    sent, voided = (shop.request(shop.document(), "ada@example.com") for _ in range(2))
    shop.send(sent)
    resource = {"type": "signature", "id": voided["signature_id"]}
    shop.perform("signature.void", resource, {"reason": "not needed"})

    for one in (sent, voided):
        with pytest.raises(SignatureState):
            shop.send(one)
    assert shown(shop, voided)["history"][-1]["reason"] == "not needed"


def test_what_is_prepared_is_the_document_that_was_meant_and_a_pdf(shop: Workshop) -> None:
    document = shop.document()
    text = {"content": base64.b64encode(b"# Terms\n").decode(), "media_type": "text/markdown", "title": "Terms"}
    with shop.client() as boss:
        terms = done(boss.post("/api/documents", json=text))

    with pytest.raises(WrongContent):
        shop.request({**document, "sha256": "0" * 64}, "ada@example.com")
    with pytest.raises(DocumentInvalid):
        shop.request(terms, "ada@example.com")
    with pytest.raises(DragomanError) as caught:
        shop.request(document, "ada@example.com", provider="docusign")
    assert caught.value.code == "NO_SIGNING_PROVIDER"


def test_a_pdf_with_a_form_is_not_prepared(shop: Workshop) -> None:
    """What is filled in could be changed after the signature: the form is to be flattened first."""
    content = base64.b64encode(with_price(typst.compile(b"= NDA"))).decode()
    given = {"content": content, "media_type": "application/pdf", "title": "NDA"}
    with shop.client() as boss:
        form = done(boss.post("/api/documents", json=given))

    with pytest.raises(DocumentInvalid) as caught:
        shop.request(form, "ada@example.com")

    assert "flatten" in caught.value.details["reason"]


def test_a_task_that_is_tried_again_prepares_one_request(shop: Workshop) -> None:
    document = shop.document()
    ledger, task = Ledger(), sql(shop.server, "SELECT gen_random_uuid() AS id")[0]["id"]
    resource = {"type": "document", "id": document["id"]}
    given = {"signers": [{"name": "Ada", "email": "ada@example.com"}]}

    ids = {
        shop.perform("signature.prepare", resource, given, task=task, ledger=ledger).output["signature_id"]
        for _ in range(2)
    }

    assert len(ids) == 1


def test_requests_of_another_tenant_are_not_there(shop: Workshop) -> None:
    draft = shop.request(shop.document(), "ada@example.com")
    rival = Workshop.of_new_tenant(shop.bench)
    with rival.client() as stranger:
        found = stranger.get(f"/api/signatures/{draft['signature_id']}")
        listed = done(stranger.get("/api/signatures"))

    assert (found.status_code, listed) == (404, [])


def test_the_shell_says_what_a_signature_is_worth(shop: Workshop, tmp_path: Path) -> None:
    document = shop.document()
    draft = shop.request(document, "ada@example.com")
    shop.send(draft)
    pdf = shop.content(document["id"], sign(shop, draft, "ada")["signed_version"])
    good, bad, none = (tmp_path / name for name in ("good.pdf", "bad.pdf", "none.pdf"))
    good.write_bytes(pdf)
    bad.write_bytes(pdf.replace(b"/Kids", b"/Kidz", 1))
    none.write_bytes(b"PK\x03\x04")

    told = [shop.server.cli("signature", "verify", str(file), "--tenant", shop.tenant) for file in (good, bad, none)]
    elsewhere = shop.server.cli("signature", "verify", str(good))

    assert [one.returncode for one in (*told, elsewhere)] == [0, 1, 1, 1]
    assert "vouched for by another tenant" in elsewhere.stdout
    assert "VALID" in told[0].stdout
    assert "Ada <ada@example.com>: intact" in told[0].stdout
    assert "TAMPERED" in told[1].stdout
    assert "DOCUMENT_INVALID" in told[2].stderr or "not" in told[2].stderr
