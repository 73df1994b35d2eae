"""TLS on the wire: what is offered, what is refused, and what the application learns of the client."""

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import uvicorn

from dragoman.infra.edge.tls import TlsProtocol, tls_context
from tests.backstage import connect, exchange, read_all
from tests.harness import DRAGOMAN, InProcess, Server, wait_for
from tests.patience import PATIENCE_S

ASK = b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
# Not by the client's own library, which would refuse in other words before it sent anything.
BY_THE_SERVER = "ALERT|UNEXPECTED_EOF"


class Authority:
    """A CA, a server certificate of it, and where their files are."""

    def __init__(self, directory: Path) -> None:
        self.ca = trustme.CA()
        self.certificate, self.key, self.bundle = (directory / name for name in ("cert.pem", "key.pem", "ca.pem"))
        issued = self.ca.issue_cert("localhost", "127.0.0.1")
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(self.key))
        self.ca.cert_pem.write_to_path(str(self.bundle))

    def client(self, *, certificate_of: trustme.CA | None = None) -> ssl.SSLContext:
        """What a client uses that trusts this CA."""
        context = ssl.create_default_context(cafile=str(self.bundle))
        if certificate_of is not None:
            certificate_of.issue_cert("agent-7.agents.example").configure_cert(context)
        return context

    def weak_client(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        """A client that can speak nothing but an old version, as far as its own library lets it."""
        context = self.client()
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = version
        context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(authority: Authority) -> Iterator[Server]:
    with InProcess(
        {
            "DRAGOMAN_TLS_CERT": str(authority.certificate),
            "DRAGOMAN_TLS_KEY": str(authority.key),
            "DRAGOMAN_TLS_CLIENT_CA": str(authority.bundle),
        }
    ) as running:
        yield running


def ask(server: Server, context: ssl.SSLContext) -> tuple[str | None, str, bytes]:
    """Protocol, cipher and answer of one request."""
    with connect(server) as bare, context.wrap_socket(bare, server_hostname="localhost") as wire:
        wire.sendall(ASK)
        cipher = wire.cipher()
        return wire.version(), cipher[0] if cipher else "", read_all(wire)


@pytest.mark.req("GW-403")
def test_tls_1_3_is_spoken_with_who_can_and_1_2_with_who_cannot(secure: Server, authority: Authority) -> None:
    older = authority.client()
    older.maximum_version = ssl.TLSVersion.TLSv1_2

    modern, _, modern_answer = ask(secure, authority.client())
    old, _, old_answer = ask(secure, older)

    assert (modern, old) == ("TLSv1.3", "TLSv1.2")
    assert b"200 OK" in modern_answer
    assert b"200 OK" in old_answer


@pytest.mark.req("GW-403")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_protocols_are_refused(secure: Server, authority: Authority, version: ssl.TLSVersion) -> None:
    with pytest.raises(ssl.SSLError, match=BY_THE_SERVER):
        ask(secure, authority.weak_client(version))


@pytest.mark.req("GW-403")
@pytest.mark.parametrize(
    "ciphers", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE+AES256+SHA1", "ECDHE+SHA256+AES128:!AESGCM"]
)
def test_ciphers_without_forward_secrecy_or_authentication_are_refused(
    secure: Server, authority: Authority, ciphers: str
) -> None:
    context = authority.weak_client(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")

    with pytest.raises(ssl.SSLError, match=BY_THE_SERVER):
        ask(secure, context)


@pytest.mark.req("GW-403")
@pytest.mark.parametrize("cipher", ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"])
def test_strong_ciphers_of_tls_1_2_are_taken(secure: Server, authority: Authority, cipher: str) -> None:
    context = authority.weak_client(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(cipher)

    assert ask(secure, context)[1] == cipher


@pytest.mark.req("GW-403")
def test_plain_http_gets_nowhere_on_a_port_with_tls(secure: Server) -> None:
    assert b"HTTP/1.1 200" not in exchange(secure, ASK)


def test_browsers_are_told_to_come_back_with_tls_only(secure: Server, authority: Authority) -> None:
    with secure.client(verify=authority.client()) as client:
        answer = client.get("/api/me")

    assert answer.status_code == 401
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


def test_the_token_of_the_command_line_works_over_tls(secure: Server, authority: Authority) -> None:
    with secure.client(secure.token(), verify=authority.client()) as client:
        assert client.get("/api/me").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_plain_http_is_not_offered_to_other_machines(tmp_path: Path, host: str) -> None:
    done = serve(tmp_path, {"DRAGOMAN_HOST": host})

    assert done.returncode == 2
    assert "DRAGOMAN_TLS_CERT" in done.stderr
    assert "DRAGOMAN_BEHIND_TLS_PROXY" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_certificate_that_cannot_be_used_is_a_clear_error(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "broken.pem").write_text("not a certificate")
    for files in (
        {"DRAGOMAN_TLS_CERT": str(tmp_path / "none.pem"), "DRAGOMAN_TLS_KEY": str(authority.key)},
        {"DRAGOMAN_TLS_CERT": str(tmp_path / "broken.pem"), "DRAGOMAN_TLS_KEY": str(authority.key)},
        {"DRAGOMAN_TLS_CERT": str(authority.certificate), "DRAGOMAN_TLS_KEY": str(tmp_path / "broken.pem")},
        {
            "DRAGOMAN_TLS_CERT": str(authority.certificate),
            "DRAGOMAN_TLS_KEY": str(authority.key),
            "DRAGOMAN_TLS_CLIENT_CA": str(tmp_path / "broken.pem"),
        },
    ):
        done = serve(tmp_path, files)

        assert done.returncode == 2
        assert "DRAGOMAN_TLS_" in done.stderr
        assert "Traceback" not in done.stderr


def serve(directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Start a server that should not start."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    ours = {"DRAGOMAN_DATA_DIR": str(directory / "d"), "DRAGOMAN_PORT": "0", "DRAGOMAN_LOG_FORMAT": "json"}
    return subprocess.run(
        [str(DRAGOMAN), "serve"],
        env=clean | ours | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


# Behind a proxy


def test_a_forwarded_address_is_believed_from_the_proxy_alone() -> None:
    with InProcess({"DRAGOMAN_BEHIND_TLS_PROXY": "true", "DRAGOMAN_TRUSTED_PROXIES": "127.0.0.1"}) as behind:
        forwarded = {"x-forwarded-for": "203.0.113.9", "x-forwarded-proto": "https"}
        proxied = httpx.get(f"{behind.url}/ready", headers=forwarded, timeout=PATIENCE_S)
        stranger = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=PATIENCE_S)
        with stranger:
            direct = stranger.get(f"{behind.url}/ready", headers=forwarded)

        def ip_of(answer: httpx.Response) -> Any:
            request_id = answer.headers["x-request-id"]
            lines = wait_for(
                lambda: [line for line in behind.log_lines() if line.get("request_id") == request_id], "the line"
            )
            return lines[0]["httpRequest"]["remoteIp"]

        assert (ip_of(proxied), ip_of(direct)) == ("203.0.113.9", "127.0.0.2")
        assert proxied.headers["strict-transport-security"] == "max-age=31536000"


# Client certificates


@pytest.fixture(scope="module")
def echo(authority: Authority) -> Iterator[int]:
    """A tiny application behind our protocol, which says what it was told of the client."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        tls = scope["extensions"]["tls"]
        body = f"{tls['tls_version']} {''.join(tls['client_cert_chain'])}".encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    config = uvicorn.Config(
        app,
        http=TlsProtocol,
        lifespan="off",
        log_config=None,
        ssl_certfile=authority.certificate,
        ssl_keyfile=authority.key,
        ssl_context_factory=tls_context(authority.bundle),
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        wait_for(lambda: running.started, "uvicorn")
        yield listener.getsockname()[1]
        running.should_exit = True
        thread.join(PATIENCE_S)


def test_the_application_sees_the_certificate_of_the_client_on_every_request(echo: int, authority: Authority) -> None:
    with httpx.Client(verify=authority.client(certificate_of=authority.ca), timeout=PATIENCE_S) as client:
        answers = [client.get(f"https://localhost:{echo}/").text for _ in range(2)]
    with httpx.Client(verify=authority.client(), timeout=PATIENCE_S) as client:
        without = client.get(f"https://localhost:{echo}/").text

    assert all(answer.startswith("TLSv1.3 -----BEGIN CERTIFICATE-----") for answer in answers)
    assert answers[0] == answers[1]
    assert without == "TLSv1.3 "


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_of_another_ca_is_refused(echo: int, authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.client(certificate_of=trustme.CA())
    context.minimum_version = context.maximum_version = version

    with httpx.Client(verify=context, timeout=PATIENCE_S) as client, pytest.raises(httpx.TransportError):
        client.get(f"https://localhost:{echo}/")
