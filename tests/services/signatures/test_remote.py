"""DocuSign and Documenso, spoken to over real sockets: drafts first, nothing twice, and webhooks with proof."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import typst
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dragoman.errors import UpstreamUnavailable
from dragoman.services.signatures.errors import ProviderRefused
from tests.backstage import sql
from tests.harness import InProcess, Server, wait_for
from tests.services.signatures.remote_providers import (
    ACCOUNT,
    TOKEN,
    WEBHOOK_KEY,
    DocumensoServer,
    DocuSignServer,
    serving,
)
from tests.services.signatures.workshop import Crashed, Ledger, Workbench, Workshop
from tests.tenants import done

Json = dict[str, Any]
OUTSIDE = {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1"}
COMPLETED = {"docusign": ("envelope-completed", "completed"), "documenso": ("DOCUMENT_COMPLETED", "COMPLETED")}
OPENED = {"docusign": ("envelope-delivered", "delivered"), "documenso": ("DOCUMENT_OPENED", "PENDING")}
VOIDED = {
    ("docusign", True): "voided", ("docusign", False): "recycle",
    ("documenso", True): "cancel", ("documenso", False): "delete",
}  # fmt: skip
SENT = {"docusign": "sent", "documenso": "distribute"}


@dataclass
class Account:
    """A tenant with an account at a provider."""

    name: str
    remote: DocuSignServer | DocumensoServer
    shop: Workshop
    configured: Json

    def draft(self) -> Json:
        return self.shop.request(
            self.shop.document(), "ada@example.com", "bob@example.com", provider=self.name, message="Please sign."
        )

    def perform(self, action: str, signature: Json, **given: Any) -> Json:
        resource = {"type": "signature", "id": signature["signature_id"]}
        return self.shop.perform(f"signature.{action}", resource, given).output

    def shown(self, signature: Json) -> Json:
        with self.shop.client() as boss:
            return done(boss.get(f"/api/signatures/{signature['signature_id']}"))

    def tell(self, event: tuple[str, str], signature: Json, **changed: Any) -> httpx.Response:
        """Let the provider send a webhook."""
        ref = self.shown(signature)["provider_ref"]
        body, headers = self.remote.webhook(event[0], ref, status=event[1])
        with self.shop.server.client() as provider:
            return provider.post(
                changed.get("path", self.configured["webhook_path"]),
                content=changed.get("content", body),
                headers=changed.get("headers", headers),
            )


@pytest.fixture(scope="module")
def outgoing() -> Iterator[Server]:
    """A server that may reach the providers of this machine."""
    with InProcess(OUTSIDE) as running:
        yield running


@pytest.fixture(scope="module")
def bench(outgoing: Server) -> Iterator[Workbench]:
    workbench = Workbench(outgoing, OUTSIDE)
    yield workbench
    workbench.close()


@pytest.fixture(params=["docusign", "documenso"])
def account(request: pytest.FixtureRequest, bench: Workbench) -> Iterator[Account]:
    remote = DocuSignServer() if request.param == "docusign" else DocumensoServer()
    shop = Workshop.of_new_tenant(bench)
    with serving(remote), shop.client() as boss:
        configured = done(boss.post("/api/signing-providers", json=configuration(request.param, remote.url)))
        yield Account(request.param, remote, shop, configured)


def configuration(name: str, url: str, **more: Any) -> Json:
    shared: Json = {"provider": name, "credential": {"access_token": TOKEN}, "webhook_keys": ["older-key", WEBHOOK_KEY]}
    if name == "docusign":
        return {**shared, "base_url": f"{url}/restapi", "account_id": ACCOUNT, **more}
    return {**shared, "base_url": f"{url}/api/v2", **more}


def test_a_request_is_drafted_then_sent_and_nothing_goes_by_itself(account: Account) -> None:
    draft = account.draft()
    drafted = list(account.remote.done)

    sent = account.shop.send(draft)

    assert (drafted, account.remote.done) == (["create"], ["create", SENT[account.name]])
    assert (draft["status"], sent["status"]) == ("created", "sent")
    assert account.perform("status", draft)["status"] == "sent"


@pytest.mark.parametrize("lost", ["the outcome", "the answer"])
def test_a_worker_that_dies_between_intent_and_outcome_sends_nothing_twice(account: Account, lost: str) -> None:
    """Neither provider knows idempotency keys: what became of a call is looked up by the name we gave it there."""
    document, ledgers, tasks = account.shop.document(), [Ledger(), Ledger()], [uuid4(), uuid4()]

    def dying(ledger: Ledger) -> None:
        ledger.crashes, account.remote.loses_answers = lost == "the outcome", lost == "the answer"

    def prepare() -> Json:
        resource = {"type": "document", "id": document["id"]}
        given = {"signers": [{"name": "Ada", "email": "ada@example.com"}], "provider": account.name}
        return account.shop.perform("signature.prepare", resource, given, task=tasks[0], ledger=ledgers[0]).output

    dying(ledgers[0])
    with pytest.raises((Crashed, UpstreamUnavailable)):
        prepare()
    account.remote.loses_answers = False
    draft = prepare()
    dying(ledgers[1])
    with pytest.raises((Crashed, UpstreamUnavailable)):
        account.shop.send(draft, task=tasks[1], ledger=ledgers[1])
    account.remote.loses_answers = False
    sent = account.shop.send(draft, task=tasks[1], ledger=ledgers[1])

    assert account.remote.done == ["create", SENT[account.name]]
    assert (sent["status"], len(account.remote.envelopes)) == ("sent", 1)


@pytest.mark.parametrize("out", [True, False])
@pytest.mark.parametrize("lost", ["the outcome", "the answer"])
def test_a_worker_that_dies_while_it_voids_finds_it_voided(account: Account, lost: str, *, out: bool) -> None:
    """A draft is removed at the provider, which then knows nothing of it: that is what voided looks like there."""
    document, task, ledger = account.shop.document(), uuid4(), Ledger()
    draft = account.shop.request(document, "ada@example.com", provider=account.name)
    if out:
        account.shop.send(draft)
    resource = {"type": "signature", "id": draft["signature_id"]}
    account.remote.done.clear()

    def void() -> Json:
        given = {"reason": "not needed"}
        return account.shop.perform("signature.void", resource, given, task=task, ledger=ledger).output

    ledger.crashes = lost == "the outcome"
    account.remote.loses_answers_to_changes = lost == "the answer"
    with pytest.raises((Crashed, UpstreamUnavailable)):
        void()
    account.remote.loses_answers_to_changes = False
    between = account.shown(draft)["status"]
    voided = void()

    assert account.remote.done == [VOIDED[account.name, out]]
    assert (between, voided["status"]) == ("sent" if out else "created", "voided")
    [last] = [step for step in account.shown(draft)["history"] if step["status"] == "voided"]
    assert (last["reason"], last["task_id"]) == ("not needed", str(task))


def test_a_request_that_a_provider_does_not_know_is_not_taken_for_voided(account: Account) -> None:
    """Only a draft that we meant to remove ourselves may be gone."""
    draft = account.draft()
    account.shop.send(draft)
    account.remote.envelopes.clear()

    with pytest.raises(ProviderRefused):
        account.perform("void", draft, reason="not needed")

    assert account.shown(draft)["status"] == "sent"


def test_a_webhook_completes_a_request_and_the_signed_document_is_fetched(account: Account) -> None:
    draft = account.draft()
    account.shop.send(draft)
    account.remote.signed = typst.compile(b"= NDA, signed elsewhere")

    answer = account.tell(COMPLETED[account.name], draft)

    assert answer.status_code == 202
    wait_for(lambda: account.shown(draft)["signed_sha256"], "the signed document")
    shown = account.shown(draft)
    assert (shown["status"], shown["signed_version"]) == ("completed", 2)
    assert account.shop.content(draft["document_id"], 2) == account.remote.signed
    assert [entry["status"] for entry in shown["history"]] == ["created", "sent", "completed"]
    assert shown["history"][-1]["source"] == "webhook"


def test_webhooks_that_come_twice_late_or_in_the_wrong_order_do_no_harm(account: Account) -> None:
    draft = account.draft()
    account.shop.send(draft)
    account.remote.signed = account.shop.content(draft["document_id"])

    answers = [account.tell(event[account.name], draft) for event in (COMPLETED, OPENED, COMPLETED)]

    assert [answer.json()["data"]["duplicate"] for answer in answers] == [False, False, True]
    assert account.shown(draft)["status"] == "completed"
    kept = sql(
        account.shop.server,
        "SELECT outcome FROM signature_webhooks WHERE configuration_id = $1",
        UUID(account.configured["id"]),
    )
    assert [row["outcome"] for row in kept] == ["applied", "applied"]


def test_a_webhook_that_does_not_prove_itself_is_refused_and_noted(account: Account) -> None:
    """Whatever is wrong with it, the answer is the same, nothing of it is kept, and there is a security event."""
    draft = account.draft()
    account.shop.send(draft)
    body, headers = account.remote.webhook(
        COMPLETED[account.name][0], account.shown(draft)["provider_ref"], status=COMPLETED[account.name][1]
    )
    other = f"/api/webhooks/{account.name}/{uuid4()}"
    forged: list[Json] = [
        {"headers": {}},
        {"headers": dict.fromkeys(headers, "bm90IGEgc2lnbmF0dXJl")},
        {"path": other},
        {"path": f"/api/webhooks/{account.name}"},
    ]
    if account.name == "docusign":  # Documenso signs nothing, so it cannot show that bytes were changed
        forged.append({"content": body.replace(b"completed", b"declined!"), "headers": headers})
    before = len(account.shop.server.security_events())

    answers = [account.tell(COMPLETED[account.name], draft, **changed) for changed in forged]

    assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(401, "UNAUTHENTICATED")}
    assert account.shown(draft)["status"] == "sent"
    events = account.shop.server.security_events()[before:]
    assert [event["event"] for event in events].count("webhook_rejected") == len(forged)


def test_a_webhook_may_name_its_configuration_in_the_query(account: Account) -> None:
    draft = account.draft()
    account.shop.send(draft)

    path = f"/api/webhooks/{account.name}?configuration_id={account.configured['id']}"
    answer = account.tell(OPENED[account.name], draft, path=path)

    assert answer.status_code == 202
    assert account.shown(draft)["history"][-1]["source"] == "webhook"


def test_a_request_is_voided_at_the_provider_draft_or_not(account: Account) -> None:
    draft, out = account.draft(), account.draft()
    account.shop.send(out)
    account.remote.done.clear()

    voided = [account.perform("void", one, reason="not needed")["status"] for one in (draft, out)]

    assert voided == ["voided", "voided"]
    assert account.remote.done == (["recycle", "voided"] if account.name == "docusign" else ["delete", "cancel"])


def test_what_a_provider_refuses_can_be_sent_again(account: Account) -> None:
    draft = account.draft()
    ref = account.shown(draft)["provider_ref"]
    kept = account.remote.envelopes.pop(ref)
    with pytest.raises(ProviderRefused):
        account.shop.send(draft)

    account.remote.envelopes[ref] = kept

    assert account.shop.send(draft)["status"] == "sent"


def test_credentials_are_sealed_and_never_shown(account: Account) -> None:
    with account.shop.client() as boss, account.shop.client("eve", "viewer") as viewer:
        listed = boss.get("/api/signing-providers").text
        refused = viewer.post("/api/signing-providers", json=configuration(account.name, account.remote.url))
    row = sql(account.shop.server, "SELECT * FROM signature_providers WHERE id = $1", UUID(account.configured["id"]))[0]

    assert refused.status_code == 403
    for shown in (listed, str(account.configured), str(dict(row)), account.shop.server.log.read_text()):
        assert TOKEN not in shown
        assert WEBHOOK_KEY not in shown
    assert "BEGIN CERTIFICATE" in listed


def test_configured_anew_a_provider_keeps_its_address_and_forgets_the_old_keys(account: Account) -> None:
    draft = account.draft()
    account.shop.send(draft)
    fresh = configuration(account.name, account.remote.url, webhook_keys=["a-fresh-key"])
    with account.shop.client() as boss:
        again = done(boss.post("/api/signing-providers", json=fresh))
        stale = account.tell(COMPLETED[account.name], draft)
        removed = boss.delete(f"/api/signing-providers/{account.name}")

    assert again["webhook_path"] == account.configured["webhook_path"]
    assert (stale.status_code, removed.status_code) == (401, 200)


def test_docusign_is_told_where_each_signer_signs_and_dates(bench: Workbench) -> None:
    """On the last page, at a place of their own: an envelope without tabs lets them put the signature anywhere."""
    shop, remote = Workshop.of_new_tenant(bench), DocuSignServer()
    people = [{"name": f"P{number}", "email": f"p{number}@example.com"} for number in range(20)]
    people[3]["role"] = "cc"
    wide = "#set page(width: 11in, height: 8.5in)\n= NDA\n#pagebreak()\nSigned."
    with serving(remote), shop.client() as boss:
        done(boss.post("/api/signing-providers", json=configuration("docusign", remote.url)))
        shop.request(shop.document(wide), signers=people, provider="docusign")

    [envelope] = remote.envelopes.values()
    recipients = envelope["recipients"]
    tabs = [(one["tabs"]["signHereTabs"], one["tabs"]["dateSignedTabs"]) for one in recipients["signers"]]
    assert [(len(signs), len(dates)) for signs, dates in tabs] == [(1, 1)] * 19
    places = [(tab["pageNumber"], tab["xPosition"], tab["yPosition"]) for kinds in tabs for [tab] in kinds]
    assert ({page for page, _, _ in places}, len(set(places))) == ({"2"}, 38)
    assert [one.get("tabs") for one in recipients["carbonCopies"]] == [None]


def test_docusign_grants_tokens_for_a_key(bench: Workbench) -> None:
    """The JWT grant: a token is asked for once, and used until it expires."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shop, remote = Workshop.of_new_tenant(bench), DocuSignServer()
    with serving(remote), shop.client() as boss:
        grant = {"integration_key": "ik", "user_id": "u1", "private_key": key.decode(), "auth_url": remote.url}
        done(boss.post("/api/signing-providers", json=configuration("docusign", remote.url, credential=grant)))
        shop.send(shop.request(shop.document(), "ada@example.com", provider="docusign"))

    assert remote.done == ["grant", "create", "sent"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "https://10.0.0.1/restapi"},
        {"base_url": "http://example.com/restapi"},
        {"account_id": None},
        {"credential": {}},
        {
            "credential": {
                "integration_key": "ik",
                "user_id": "u",
                "private_key": "no key at all",
                "auth_url": "https://a.b",
            }
        },
        {"provider": "embedded"},
    ],
    ids=["private network", "plain http", "no account", "no credential", "no key", "not remote"],
)
def test_a_configuration_that_cannot_work_is_refused(bench: Workbench, wrong: Json) -> None:
    shop = Workshop.of_new_tenant(bench)
    with shop.client() as boss:
        answer = boss.post("/api/signing-providers", json=configuration("docusign", "https://a.b") | wrong)

    assert answer.status_code == 400
    assert "no key at all" not in answer.text


def test_all_have_signed_only_when_the_provider_says_so_and_the_document_is_here(account: Account) -> None:
    """What marking a document as executed asks."""
    draft = account.draft()
    core, caller = account.shop.bench.core, account.shop.caller()
    document, sha256 = UUID(draft["document_id"]), draft["document_sha256"]

    def complete() -> bool:
        return account.shop.bench.run(core.service.check(caller, document, sha256)).complete

    before = complete()
    account.shop.send(draft)
    out = complete()
    account.remote.signed = account.shop.content(draft["document_id"])
    account.tell(COMPLETED[account.name], draft)
    account.perform("status", draft)

    assert (before, out, complete()) == (False, False, True)


def test_what_a_provider_calls_complete_and_gives_no_pdf_for_is_not_complete(account: Account) -> None:
    draft = account.draft()
    account.shop.send(draft)
    account.remote.signed = base64.b64encode(b"an error page")

    account.tell(COMPLETED[account.name], draft)

    check = account.shop.bench.core.service.check(
        account.shop.caller(), UUID(draft["document_id"]), draft["document_sha256"]
    )
    assert not account.shop.bench.run(check).complete
