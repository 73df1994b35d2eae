"""A sync connects to the address that was judged and to no other, and tells nothing of the inside."""

import socket
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from dragoman.infra.outbound import NotResolved
from dragoman.infra.outbound.guard import Names
from tests.harness import InProcess, Server
from tests.services.knowledge.git_hosts import HttpsHost, Trap, new_key
from tests.services.knowledge.remotes import Remote, item
from tests.tenants import done, new_tenant

# The system resolves `localhost` to 127.0.0.1; the resolver of the test says JUDGED first and 127.0.0.1 ever after.
JUDGED, OTHER = "127.0.0.2", "127.0.0.1"
ANSWERS: dict[str, list[str]] = {}


async def _resolve(_: Names, host: str, port: int) -> list[Any]:
    del port
    answers = ANSWERS.get(host)
    if not answers:
        raise NotResolved(f"{host} cannot be resolved")
    return [ip_address(one) for one in (answers.pop(0) if len(answers) > 1 else answers[0]).split(" ")]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsHost]:
    """A repository at the address that is allowed."""
    directory = tmp_path_factory.mktemp("host")
    remote = Remote(directory / "remote")
    remote.write(company__adrs__tea=item("Tea", id="tea"))
    with HttpsHost(remote, directory, name="localhost", address=JUDGED) as running:
        yield running


@pytest.fixture(scope="module")
def server(host: HttpsHost) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Names, "__call__", _resolve)
        with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": f"{JUDGED}/32", "SSL_CERT_FILE": str(host.bundle)}) as running:
            yield running


@pytest.fixture(scope="module")
def hasty(host: HttpsHost) -> Iterator[Server]:
    """A server that gives up a silent remote at once; nothing that it is asked for succeeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Names, "__call__", _resolve)
        patch.setattr("dragoman.services.knowledge.sync.LONGEST_SILENCE_S", 0.5)
        with InProcess({"DRAGOMAN_OUTBOUND__ALLOW": f"{JUDGED}/32", "SSL_CERT_FILE": str(host.bundle)}) as running:
            yield running


@pytest.fixture(autouse=True)
def names(host: HttpsHost) -> Iterator[None]:
    ANSWERS.clear()
    ANSWERS["localhost"] = [JUDGED, OTHER]
    host.answers = host.redirect = None
    yield
    ANSWERS.clear()


def sync(server: Server, url: str) -> dict[str, Any]:
    """Sync from there as a tenant of its own, with a key where SSH needs one; return the problem."""
    with server.client(server.token(tenant=new_tenant(server))) as client:
        if url.startswith("ssh:"):
            private, public = new_key()
            client.post("/api/knowledge-remotes", json={"remote": url, "private_key": private, "host_keys": [public]})
        return client.post("/api/knowledge/sync", json={"remote": url}).json()


def test_a_name_that_is_rebound_leads_nowhere_else(server: Server, host: HttpsHost) -> None:
    """Review finding 19: libgit2 resolved the name again, and came to loopback."""
    with Trap(OTHER, host.port) as trap, server.client(server.token(tenant=new_tenant(server))) as client:
        result = done(client.post("/api/knowledge/sync", json={"remote": host.url}))
        refused = client.post("/api/knowledge/sync", json={"remote": host.url}).json()

    assert result["added"] == 1
    assert refused["code"] == "ADDRESS_REFUSED"
    assert trap.visits == 0


def test_a_rebound_name_leads_ssh_nowhere_else_either(server: Server) -> None:
    ANSWERS["localhost"] = [JUDGED, JUDGED, OTHER]  # the first is for the check of the credentials
    with Trap(JUDGED, greeting=b"SSH-2.0-test\r\n") as judged, Trap(OTHER, judged.port) as trap:
        problem = sync(server, f"ssh://git@localhost:{judged.port}/x.git")

    assert problem["code"] == "REMOTE_UNAVAILABLE"
    assert judged.heard.startswith(b"SSH-2.0-")
    assert trap.visits == 0


@pytest.mark.parametrize("answer", [OTHER, f"{JUDGED} {OTHER}", "93.184.215.14 10.0.0.1", "::1", "169.254.169.254"])
@pytest.mark.parametrize("remote", ["https://inner.test/x.git", "ssh://git@inner.test/x.git", "git@inner.test:x.git"])
def test_a_name_with_any_address_of_the_inside_is_refused(server: Server, remote: str, answer: str) -> None:
    ANSWERS["inner.test"] = [answer]

    assert sync(server, remote)["code"] == "ADDRESS_REFUSED"


def test_a_redirect_is_not_followed(server: Server, host: HttpsHost) -> None:
    with Trap(OTHER) as trap:
        host.redirect = f"https://localhost:{trap.port}"
        problem = sync(server, host.url)

    assert (problem["code"], problem["details"]["reason"]) == ("REMOTE_UNAVAILABLE", "not_a_repository")
    assert trap.visits == 0


def test_what_does_not_work_at_a_port_is_not_told(hasty: Server, tmp_path: Path) -> None:
    """Review finding 19: "Connection refused" and "SSL error" made it a port scanner."""
    ANSWERS["localhost"] = [JUDGED]
    notations = ("https://localhost:{port}/x.git", "ssh://git@localhost:{port}/x.git")
    with (
        Trap(JUDGED) as closing,
        Trap(JUDGED, greeting=b"220 mail.test ESMTP\r\n") as mail,
        socket.create_server((JUDGED, 0)) as silent,
        HttpsHost(Remote(tmp_path / "r"), tmp_path, name="localhost", address=JUDGED) as untrusted,
    ):
        ports = (1, closing.port, mail.port, silent.getsockname()[1], untrusted.port)
        problems = [sync(hasty, notation.format(port=port)) for port in ports for notation in notations]
    problems.append(sync(hasty, "https://nowhere.test/x.git"))

    assert {problem["code"] for problem in problems} == {"REMOTE_UNAVAILABLE"}
    assert {problem["details"]["reason"] for problem in problems} == {"unreachable"}
    assert len({problem["detail"].replace(problem["details"]["remote"], "") for problem in problems}) == 1
    logged = {line["detail"] for line in hasty.log_lines() if line["message"] == "knowledge.fetch_failed"}
    assert len(logged) > 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "not_a_repository"), (200, "not_a_repository"), (403, "unauthorized"), (503, "unreachable")],
)
def test_a_host_that_has_proved_its_name_is_told_apart(
    server: Server, host: HttpsHost, status: int, reason: str
) -> None:
    host.answers = status

    assert sync(server, host.url)["details"]["reason"] == reason
