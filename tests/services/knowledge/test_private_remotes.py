"""Remotes that ask who comes: credentials are the tenant's own, sealed, for one remote, and never shown."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.backstage import sql
from tests.doors.test_secrets import places_of
from tests.harness import InProcess, Server
from tests.services.knowledge.git_hosts import HttpsHost, Trap, new_key
from tests.services.knowledge.remotes import Remote, item
from tests.services.knowledge.ssh_host import SshHost
from tests.tenants import done, new_tenant

TOKEN = "t0ken-of-the-robot"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("private")


@pytest.fixture(scope="module")
def remote(directory: Path) -> Remote:
    remote = Remote(directory / "remote")
    remote.write(company__adrs__tea=item("Tea", id="tea"))
    return remote


@pytest.fixture(scope="module")
def host(directory: Path, remote: Remote) -> Iterator[HttpsHost]:
    with HttpsHost(remote, directory, name="127.0.0.1", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def server(host: HttpsHost, directory: Path) -> Iterator[Server]:
    """Its user has an SSH agent, SSH keys and git settings, which tell who uses them."""
    home = directory / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text(new_key()[0])
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    (home / ".git-credentials").write_text(f"https://robot:{TOKEN}@127.0.0.1:{host.port}\n")
    environment = {
        "DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1",
        "SSL_CERT_FILE": str(host.bundle),
        "HOME": str(home),
        "SSH_AUTH_SOCK": str(directory / "agent"),
    }
    with InProcess(environment) as running:
        yield running


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    """An administrator of a tenant of the test's own."""
    with server.client(server.token(tenant=new_tenant(server))) as client:
        yield client


def connect(client: httpx.Client, remote: str, **credentials: Any) -> Json:
    return done(client.post("/api/knowledge-remotes", json={"remote": remote, **credentials}))


def sync(client: httpx.Client, remote: str) -> Json:
    return client.post("/api/knowledge/sync", json={"remote": remote}).json()


def test_a_private_remote_is_synced_with_the_credentials_of_the_tenant(admin: httpx.Client, host: HttpsHost) -> None:
    """Depth review F7."""
    before = sync(admin, host.url)
    connect(admin, host.url, username="robot", token="wrong")
    wrong = sync(admin, host.url)
    connected = connect(admin, host.url, username="robot", token=TOKEN)
    synced = sync(admin, host.url)

    assert [problem["details"]["reason"] for problem in (before, wrong)] == ["unauthorized", "unauthorized"]
    assert (connected["kind"], connected["username"]) == ("token", "robot")
    assert synced["data"]["added"] == 1


def test_credentials_are_for_their_tenant_and_their_remote_alone(
    server: Server, admin: httpx.Client, host: HttpsHost
) -> None:
    connect(admin, host.url, username="robot", token=TOKEN)
    with server.client(server.token(tenant=new_tenant(server))) as stranger:
        foreign = sync(stranger, host.url)
    beside = sync(admin, host.url.replace("knowledge.git", "other.git"))

    assert {problem["details"]["reason"] for problem in (foreign, beside)} == {"unauthorized"}


def test_a_row_in_the_place_of_another_opens_nothing(server: Server, admin: httpx.Client, host: HttpsHost) -> None:
    mine = connect(admin, host.url, username="robot", token=TOKEN)
    with Trap("127.0.0.1") as trap:
        elsewhere = f"https://127.0.0.1:{trap.port}/x.git"
        sql(server, "UPDATE knowledge_remotes SET remote = $2 WHERE id = $1::uuid RETURNING 1", mine["id"], elsewhere)
        moved = admin.post("/api/knowledge/sync", json={"remote": elsewhere})

    assert moved.status_code >= 400
    assert trap.visits == 0


def test_credentials_are_shown_nowhere(server: Server, admin: httpx.Client, host: HttpsHost) -> None:
    secret = f"s3cr3t-{uuid4().hex}"
    connected = connect(admin, host.url, username="robot", token=secret)
    sync(admin, host.url)
    listed = done(admin.get("/api/knowledge-remotes"))
    trail = done(admin.get("/api/audit", params={"limit": 200}))
    kept = places_of(server, secret)
    removed = done(admin.delete(f"/api/knowledge-remotes/{connected['id']}"))

    assert [each["id"] for each in listed] == [connected["id"]]
    assert "knowledge.connect" in {record["operation"] for record in trail}
    assert removed["id"] == connected["id"]
    assert done(admin.get("/api/knowledge-remotes")) == []
    assert secret not in json.dumps([connected, listed, trail, removed])
    assert kept == []


@pytest.mark.parametrize(
    "given",
    [
        {"remote": "https://127.0.0.1/x.git"},
        {"remote": "https://127.0.0.1/x.git", "private_key": new_key()[0], "host_keys": [new_key()[1]]},
        {"remote": "ssh://git@127.0.0.1/x.git", "token": "abc"},
        {"remote": "ssh://git@127.0.0.1/x.git", "private_key": new_key()[0]},
        {"remote": "ssh://git@127.0.0.1/x.git", "private_key": "nonsense", "host_keys": [new_key()[1]]},
        {"remote": "ssh://git@127.0.0.1/x.git", "private_key": new_key()[0], "host_keys": ["nonsense"]},
        {"remote": "/srv/x.git", "token": "abc"},
        {"remote": "nonsense", "token": "abc"},
    ],
)
def test_credentials_that_do_not_fit_their_remote_are_refused(admin: httpx.Client, given: Json) -> None:
    refused = admin.post("/api/knowledge-remotes", json=given)

    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PARAMS")


def test_credentials_for_the_inside_are_refused(admin: httpx.Client) -> None:
    refused = admin.post("/api/knowledge-remotes", json={"remote": "https://10.0.0.1/x.git", "token": "abc"})

    assert refused.json()["code"] == "ADDRESS_REFUSED"


def test_ssh_uses_the_key_of_the_tenant_and_believes_the_pinned_host_alone(
    server: Server, admin: httpx.Client, remote: Remote
) -> None:
    """Review finding S1: whatever remote a tenant named, the server's own agent was asked for its keys."""
    private, public = new_key()
    with SshHost(remote, allowed=public) as host:
        url = f"ssh://git@127.0.0.1:{host.port}/knowledge.git"
        unknown = sync(admin, url)
        connect(admin, url, private_key=private, host_keys=[new_key()[1]])
        another_host = sync(admin, url)
        connect(admin, url, private_key=new_key()[0], host_keys=[host.public_key])
        another_key = sync(admin, url)
        connected = connect(admin, url, private_key=private, host_keys=[f"[127.0.0.1]:{host.port} {host.public_key}"])
        synced = sync(admin, url)

    assert unknown["details"]["reason"] == "unauthorized"
    assert another_host["details"]["reason"] == "unreachable"
    assert another_key["details"]["reason"] == "unauthorized"
    assert connected["public_key"].split()[1] == public.split()[1]
    assert synced["data"]["added"] == 1
    assert host.users == {"git"}


def test_the_agent_of_the_server_is_not_asked(server: Server, admin: httpx.Client, remote: Remote) -> None:
    _, public = new_key()
    agent_path = os.environ["SSH_AUTH_SOCK"]
    with socket.socket(socket.AF_UNIX) as agent, SshHost(remote, allowed=public) as host:
        agent.bind(agent_path)
        agent.listen()
        agent.setblocking(False)
        url = f"ssh://git@127.0.0.1:{host.port}/knowledge.git"
        connect(admin, url, private_key=new_key()[0], host_keys=[host.public_key])
        refused = sync(admin, url)
        with pytest.raises(BlockingIOError):
            agent.accept()

    assert refused["details"]["reason"] == "unauthorized"
