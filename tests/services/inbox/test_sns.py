"""Amazon SNS: signatures of both versions, over certificates that lie where SNS has them and nowhere else."""

import base64
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.backstage import sql
from tests.harness import InProcess, Server
from tests.services.inbox.senders import Json, Source

pytestmark = pytest.mark.req("GW-013")
TOPIC = "arn:aws:sns:eu-west-1:123456789012:costs"
EXPORT = {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {
    "bucket": {"name": "billing"}, "object": {"key": "focus/2026-11.csv.gz"}}}]}  # fmt: skip
_SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}


class Sns:
    """A stand-in for SNS on loopback: it lays out its certificate, confirms subscriptions, and signs."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.asked: list[str] = []
        sns = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                sns.answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.host = f"127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def certificate(self, *, ended: bool = False) -> bytes:
        """Return the certificate, now or when its time is over."""
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        until = datetime.now(UTC) + timedelta(days=-1 if ended else 30)
        made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self.key.public_key())
        made = made.serial_number(7).not_valid_before(until - timedelta(days=60)).not_valid_after(until)
        return made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.asked.append(request.path)
        if request.path.startswith("/moved"):
            request.send_response(302)
            request.send_header("location", f"http://{self.host}/cert.pem")
            body = b""
        else:
            request.send_response(200)
            body = self.certificate(ended="ended" in request.path) if request.path.endswith(".pem") else b"<ok/>"
            body = b"no certificate" if "nothing" in request.path else body
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def message(self, message: Any, *, version: str = "2", **fields: Any) -> Json:
        """Return a signed message; a field that is None is left out before it is signed."""
        given: Json = {
            "Type": "Notification",
            "MessageId": str(uuid4()),
            "TopicArn": TOPIC,
            "Message": message if isinstance(message, str) else json.dumps(message),
            "Timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "SignatureVersion": version,
            "SigningCertURL": f"http://{self.host}/cert.pem",
        }
        given = {name: value for name, value in (given | fields).items() if value is not None}
        named = [name for name in _SIGNED.get(given["Type"], ()) if name in given]
        signed = "".join(f"{name}\n{given[name]}\n" for name in named).encode()
        algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()
        return given | {"Signature": base64.b64encode(self.key.sign(signed, padding.PKCS1v15(), algorithm)).decode()}

    def close(self) -> None:
        """Stop answering."""
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture(scope="module")
def sns() -> Iterator[Sns]:
    made = Sns()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(sns: Sns) -> Iterator[Server]:
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "DRAGOMAN_WEBHOOKS__SNS_HOSTS": sns.host}) as running:
        yield running


@pytest.fixture(scope="module")
def source(server: Server) -> Source:
    return Source.register(server, "aws", topic_arn=TOPIC, account="123456789012")


def post(source: Source, message: Json) -> Any:
    """Send as SNS does: JSON that is called text."""
    headers = {"content-type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": message.get("Type", "")}
    return source.post(json.dumps(message).encode(), headers)


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "Amazon S3 Notification"])
def test_a_signed_message_is_taken_once(source: Source, sns: Sns, version: str, subject: str | None) -> None:
    message = sns.message(EXPORT, version=version, Subject=subject)

    taken, again = post(source, message), post(source, message)

    assert (taken.status_code, again.json()["data"]["duplicate"]) == (202, True), taken.text
    shown = source.admin("GET", f"/api/webhook-events/{taken.json()['data']['id']}")
    assert (shown["topic"], shown["event_id"]) == ("cost.export_ready", message["MessageId"])


@pytest.mark.req("GW-206")
@pytest.mark.parametrize(
    "changed",
    [
        {"Message": "changed"}, {"MessageId": "changed"}, {"Timestamp": "2026-11-19T00:00:00.000Z"}, {"Subject": "new"},
        {"Signature": ""}, {"Signature": "!"}, {"SignatureVersion": "3"}, {"SignatureVersion": "1"},
        {"TopicArn": TOPIC + "2"}, {"Type": "SubscriptionConfirmation"}, {"Type": "Nonsense"}, {"SigningCertURL": ""},
    ],
    ids=str,
)  # fmt: skip
def test_a_message_that_was_changed_is_refused(server: Server, source: Source, sns: Sns, changed: Json) -> None:
    refused = post(source, sns.message(EXPORT) | changed)

    assert refused.status_code == 401
    [event] = server.security_events(of=refused.json()["instance"].removeprefix("urn:uuid:"))
    assert event["event"] == "webhook_rejected"


@pytest.mark.req("GW-206")
@pytest.mark.parametrize(
    "address",
    [
        "http://sns.eu-west-1.amazonaws.com/cert.pem", "https://sns.us-east-1.amazonaws.com/cert.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.example/cert.pem", "https://evil.example/sns.eu-west-1.amazonaws.com.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/cert.pem", "https://evil.example#.amazonaws.com/cert.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/cert.pem", "https://sns.eu-west-1.amazonaws.com/cert.txt",
        "https://s3.eu-west-1.amazonaws.com/cert.pem", "https://sns.eu-west-1.amazonaws.com\\@evil.example/cert.pem",
        "file:///etc/cert.pem", "//{host}/cert.pem", "https://[::1]/cert.pem", "https://[/cert.pem",
        "http://{host}/moved.pem", "http://{host}/nothing.pem", "http://{host}/ended.pem",
    ],
)  # fmt: skip
def test_a_certificate_that_lies_elsewhere_is_not_asked_for(source: Source, sns: Sns, address: str) -> None:
    sns.asked.clear()

    refused = post(source, sns.message(EXPORT, SigningCertURL=address.format(host=sns.host)))

    assert refused.status_code == 401
    allowed = {"/moved.pem", "/nothing.pem", "/ended.pem"}
    assert set(sns.asked) <= allowed, "a redirect was followed, or another host stood in"


@pytest.mark.parametrize(("hours", "status"), [(-6, 202), (-48, 401), (1, 401)])
def test_a_message_may_be_as_old_as_sns_repeats_it(source: Source, sns: Sns, hours: int, status: int) -> None:
    at = (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    assert post(source, sns.message(EXPORT, Timestamp=at)).status_code == status


def confirmation(sns: Sns, address: str, topic: str = TOPIC) -> Json:
    """Return the request to confirm a subscription."""
    return sns.message("Confirm.", Type="SubscriptionConfirmation", Token="t", SubscribeURL=address, TopicArn=topic)


def test_the_subscription_of_the_topic_is_confirmed_and_no_other(server: Server, source: Source, sns: Sns) -> None:
    asking = f"?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=t"
    sns.asked.clear()

    confirmed = post(source, confirmation(sns, f"http://{sns.host}/{asking}"))
    elsewhere = [
        post(source, confirmation(sns, f"https://evil.example/{asking}")),
        post(source, confirmation(sns, f"http://{sns.host}/?Action=DeleteTopic&TopicArn={TOPIC}")),
        post(source, confirmation(sns, f"http://{sns.host}/?Action=ConfirmSubscription&TopicArn={TOPIC}2")),
        post(source, confirmation(sns, f"http://{sns.host}/{asking}", TOPIC + "2")),
    ]

    assert (confirmed.status_code, confirmed.json()) == (200, {"confirmed": TOPIC})
    assert [path for path in sns.asked if not path.endswith(".pem")] == [f"/{asking}"]
    assert [one.status_code for one in elsewhere] == [401, 401, 401, 401]
    assert sql(server, "SELECT FROM webhook_events WHERE type = 'SubscriptionConfirmation'") == []


def test_a_certificate_is_asked_for_once(source: Source, sns: Sns) -> None:
    sns.asked.clear()
    address = f"http://{sns.host}/{uuid4().hex}.pem"

    taken = [post(source, sns.message(EXPORT, SigningCertURL=address)).status_code for _ in range(3)]

    assert (taken, len(sns.asked)) == ([202, 202, 202], 1)


def test_while_certificates_cannot_be_had_the_sender_is_asked_to_come_again(sns: Sns) -> None:
    with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "DRAGOMAN_WEBHOOKS__SNS_HOSTS": "127.0.0.1:9"}) as server:
        source = Source.register(server, "aws", topic_arn=TOPIC)

        answer = post(source, sns.message(EXPORT, SigningCertURL="http://127.0.0.1:9/cert.pem"))

    assert (answer.status_code, answer.json()["code"]) == (503, "UPSTREAM_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0
