"""An upstream of a tenant that is away is left alone, says so, and is taken back; nobody else notices."""

from pathlib import Path

import pytest

from tests.harness import InProcess, wait_for
from tests.services.knowledge.git_hosts import HttpsHost
from tests.services.knowledge.remotes import Remote, item
from tests.tenants import new_tenant


@pytest.mark.req("GW-208")
def test_a_remote_that_is_away_is_left_alone_until_it_is_back(tmp_path: Path) -> None:
    remote = Remote(tmp_path / "remote")
    remote.write(company__adrs__tea=item("Tea", id="tea"))
    with HttpsHost(remote, tmp_path, name="127.0.0.1") as host:
        environment = {"DRAGOMAN_OUTBOUND__ALLOW": "127.0.0.1", "SSL_CERT_FILE": str(host.bundle)}
    with InProcess(environment) as server, server.client(server.token(tenant=new_tenant(server))) as tenant:
        body = {"remote": host.url}
        answers = [tenant.post("/api/knowledge/sync", json=body) for _ in range(6)]
        with server.client(server.token(tenant=new_tenant(server))) as other:
            others = other.post("/api/knowledge/sync", json=body)
        health = tenant.get("/health")
        metrics = tenant.get("/metrics").text
        host.open_again()
        with host:
            wait_for(lambda: tenant.post("/api/knowledge/sync", json=body).is_success, "the breaker to close")
        closed = wait_for(lambda: tenant.get("/health").json()["tenant_breakers"]["git"] == 0, "the report")

    assert [answer.json()["code"] for answer in answers] == [*["REMOTE_UNAVAILABLE"] * 5, "UPSTREAM_UNAVAILABLE"]
    assert (answers[-1].status_code, 1 <= int(answers[-1].headers["retry-after"]) <= 5) == (503, True)
    assert others.json()["code"] == "REMOTE_UNAVAILABLE"
    assert (health.json()["status"], health.json()["tenant_breakers"]["git"]) == ("ok", 1)
    assert str(host.port) not in health.text + metrics
    assert 'dragoman_tenant_breakers_open{upstream="git"} 1.0' in metrics
    assert closed
