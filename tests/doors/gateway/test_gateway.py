"""The agent gateway over real TLS: a certificate and a key, both of one registration, and nothing else."""

import base64
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from dragoman.infra.private_authority import Issued, PrivateAuthority
from tests.backstage import add_tenant
from tests.doors.gateway.proxy import tls_proxy
from tests.doors.rest.calling import data
from tests.harness import InProcess, Server, wait_for
from tests.minutes import in_one_minute
from tests.patience import PATIENCE_S
from tests.tenants import beside

pytestmark = pytest.mark.req("GW-014")
SHOW = {"tool": "identity_show", "arguments": {}}
PER_MIN = 10


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    made = PrivateAuthority(tmp_path_factory.mktemp("ca"))
    made.create("Agents")
    return made


@pytest.fixture(scope="module")
def server_certificate(authority: PrivateAuthority) -> Issued:
    return authority.issue("server", days=1, server_names=("localhost", "127.0.0.1"))


@pytest.fixture(scope="module")
def gateway(server: Server, authority: PrivateAuthority, server_certificate: Issued) -> Iterator[Server]:
    """A server with TLS, beside one without on which tenants are made."""
    with InProcess(
        beside(server)
        | {
            "DRAGOMAN_TLS_CERT": str(server_certificate.certificate),
            "DRAGOMAN_TLS_KEY": str(server_certificate.key),
            "DRAGOMAN_TLS_CLIENT_CA": str(authority.certificate),
            "DRAGOMAN_GATEWAY__CRL": str(authority.revocations),
            "DRAGOMAN_LIMITS__AGENT_PER_MIN": str(PER_MIN),
        }
    ) as running:
        yield running


class Agents:
    """Registers agents as an admin of a tenant, and queries as one of them."""

    def __init__(self, home: Server, server: Server, authority: PrivateAuthority) -> None:
        self.home = home
        self.server = server
        self.authority = authority
        self.slug = add_tenant(home)
        self._count = 0

    def admin(self, method: str, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Ask as the admin of the tenant."""
        with self.home.client(self.home.token(tenant=self.slug)) as client:
            return data(client.request(method, path, json=body, **options), status)

    def trusting(self, shown: Issued | None = None) -> ssl.SSLContext:
        """A client that trusts the server, and shows a certificate or none."""
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        if shown is not None:
            context.load_cert_chain(shown.certificate, shown.key)
        return context

    def past(self) -> Issued:
        """A certificate that has expired."""
        self._count += 1
        earlier = PrivateAuthority(
            self.authority.directory, clock=lambda: datetime.now(UTC).replace(microsecond=0) - timedelta(days=9)
        )
        return earlier.issue(f"{self.slug}-{self._count}", days=1)

    def issue(self) -> Issued:
        """A certificate of a name that nobody has."""
        self._count += 1
        return self.authority.issue(f"{self.slug}-{self._count}", days=1)

    def register(self, shown: Issued, **more: Any) -> dict[str, Any]:
        """Register an agent; the answer holds its key."""
        given = {"name": shown.name, "certificate": shown.certificate.read_text(), **more}
        return self.admin("POST", "/api/a2a-agents", given, 201)

    def ask(
        self, shown: Issued | None, key: str | None, path: str = "/a2a/v1/query", body: Any = SHOW, **headers: str
    ) -> httpx.Response:
        """Query as an agent does."""
        sent = {**({"x-api-key": key} if key else {}), **headers}
        with httpx.Client(base_url=self.server.url, verify=self.trusting(shown), timeout=PATIENCE_S) as client:
            return client.request("GET" if path.endswith("capabilities") else "POST", path, json=body, headers=sent)


@pytest.fixture
def agents(server: Server, gateway: Server, authority: PrivateAuthority) -> Agents:
    return Agents(server, gateway, authority)


def reasons(server: Server, response: httpx.Response) -> list[str]:
    """Why the request was refused, as the security stream has it."""
    return [
        event["reason"] for event in server.security_events(of=response.json()["instance"].removeprefix("urn:uuid:"))
    ]


def test_a_certificate_with_its_key_is_answered_in_the_form_of_a2a(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)

    answered = agents.ask(shown, agent["secret"])

    task = answered.json()["task"]
    assert answered.status_code == 200
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    told = task["artifacts"][0]["parts"][0]["data"]
    assert (told["subject"], told["tenant"]) == (f"a2a-agent:{agent['id']}", agents.slug)
    assert task["metadata"]["requestId"] == task["id"] == answered.headers["x-request-id"]


@pytest.mark.parametrize(
    "body",
    [
        {"message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"data": SHOW}]}},
        {"tool": "identity_show", "query": {}},
    ],
)
def test_a_query_may_come_as_a_message_or_by_itself(agents: Agents, body: dict[str, Any]) -> None:
    shown = agents.issue()
    agent = agents.register(shown)

    assert agents.ask(shown, agent["secret"], body=body).status_code == 200


def test_the_tenant_is_that_of_the_registration_whatever_a_request_says(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)

    answered = agents.ask(shown, agent["secret"], body=SHOW | {"context": {"tenantId": "demo"}, "agentId": "another"})

    assert answered.json()["task"]["artifacts"][0]["parts"][0]["data"]["tenant"] == agents.slug


def test_each_half_of_the_credentials_is_refused_without_the_other(agents: Agents) -> None:
    mine, theirs, stranger = agents.issue(), agents.issue(), agents.issue()
    first, second = agents.register(mine), agents.register(theirs)
    cases = {
        "no client certificate": (None, first["secret"]),
        "no key of an agent beside the client certificate": (mine, None),
        "the key is that of another client certificate": (mine, second["secret"]),
        "agent key wrong": (mine, first["secret"][:-4] + "0000"),
        "agent unknown": (mine, "dga_" + "0" * 32 + "_" + "a" * 64),
    }

    for reason, (shown, key) in cases.items():
        refused = agents.ask(shown, key)
        assert (refused.status_code, reasons(agents.server, refused)) == (401, [reason])
    assert agents.ask(stranger, second["secret"]).status_code == 401


def test_other_credentials_open_nothing_here_and_its_key_opens_nothing_elsewhere(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    token = agents.home.token(tenant=agents.slug)
    elsewhere = agents.ask(shown, agent["secret"], "/api/me")

    assert agents.ask(shown, None, authorization=f"Bearer {token}").status_code == 401
    assert elsewhere.status_code == 401


def test_a_certificate_of_another_authority_is_refused_at_the_handshake(agents: Agents, tmp_path: Path) -> None:
    foreign = PrivateAuthority(tmp_path)
    foreign.create("Others")
    shown = agents.issue()
    agent = agents.register(shown)

    with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
        agents.ask(foreign.issue("intruder", days=1), agent["secret"])


def test_an_expired_certificate_is_refused_at_the_handshake_and_cannot_be_registered(agents: Agents) -> None:
    expired, shown = agents.past(), agents.issue()
    agent = agents.register(shown)
    given = {"name": "late", "certificate": expired.certificate.read_text()}

    with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
        agents.ask(expired, agent["secret"])
    with agents.home.client(agents.home.token(tenant=agents.slug)) as admin:
        assert admin.post("/api/a2a-agents", json=given).status_code == 400


def test_a_revoked_certificate_is_refused_while_its_connection_is_open(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown, per_min=100_000)
    headers = {"x-api-key": agent["secret"]}
    with httpx.Client(base_url=agents.server.url, verify=agents.trusting(shown), timeout=PATIENCE_S) as client:
        before = client.post("/a2a/v1/query", json=SHOW, headers=headers)
        agents.authority.revoke(shown.name)

        refused = wait_for(
            lambda: (answer := client.post("/a2a/v1/query", json=SHOW, headers=headers)).status_code == 401 and answer,
            "the refusal",
        )

    assert before.status_code == 200
    assert reasons(agents.server, refused) == ["client certificate revoked"]


def test_a_suspended_agent_is_refused_at_once_and_comes_back_when_it_is_resumed(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    place = f"/api/a2a-agents/{agent['id']}"

    agents.admin("POST", f"{place}/suspend", {})
    suspended = agents.ask(shown, agent["secret"]).status_code
    agents.admin("POST", f"{place}/resume", {})

    assert suspended == 401
    assert agents.ask(shown, agent["secret"]).status_code == 200
    agents.admin("DELETE", place)
    assert agents.ask(shown, agent["secret"]).status_code == 401


def test_a_rotated_key_ends_at_once_or_after_its_grace(agents: Agents) -> None:
    shown, renewed = agents.issue(), agents.issue()
    first = agents.register(shown)
    place = f"/api/a2a-agents/{first['id']}/rotate"

    given = {"certificate": renewed.certificate.read_text(), "grace_s": 600}
    second = agents.admin("POST", place, given, 201)
    meanwhile = [agents.ask(shown, first["secret"]).status_code, agents.ask(renewed, second["secret"]).status_code]
    third = agents.admin("POST", place, {}, 201)

    assert meanwhile == [200, 200]
    assert agents.ask(renewed, second["secret"]).status_code == 401
    assert agents.ask(renewed, third["secret"]).status_code == 200


def test_only_reads_within_the_scopes_are_run(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown, scopes=["read:knowledge"], per_min=1000)

    def code(tool: str, arguments: dict[str, Any]) -> tuple[int, str | None]:
        answered = agents.ask(shown, agent["secret"], body={"tool": tool, "arguments": arguments})
        return answered.status_code, answered.json().get("code")

    assert code("knowledge_query", {}) == (200, None)
    assert code("memory_list", {}) == (403, "UNAUTHORIZED")
    assert code("knowledge_propose", {"type": "adr", "title": "A", "content": "B"}) == (404, "NOT_FOUND")
    assert code("user_invite", {}) == (404, "NOT_FOUND")
    assert code("knowledge_query", {"nonsense": 1}) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"tool": 5, "arguments": {}}', b'{"tool": "identity_show"}', b'{"message": {"parts": []}}'],
)
def test_a_body_of_another_shape_is_invalid_input(agents: Agents, body: bytes) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    headers = {"x-api-key": agent["secret"], "content-type": "application/json"}
    with httpx.Client(base_url=agents.server.url, verify=agents.trusting(shown), timeout=PATIENCE_S) as client:
        answered = client.post("/a2a/v1/query", content=body, headers=headers)

    assert (answered.status_code, answered.json()["code"]) == (400, "INVALID_PARAMS")


def test_capabilities_say_what_may_be_asked_and_how_often(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown, scopes=["read:knowledge"], per_min=25)

    told = agents.ask(shown, agent["secret"], "/a2a/v1/capabilities", None).json()

    tools = {skill["tool"] for skill in told["skills"]}
    assert told["limits"] == {"queriesPerMinute": 25}
    assert told["agent"] == {"id": f"a2a-agent:{agent['id']}", "tenant": agents.slug, "scopes": ["read:knowledge"]}
    assert {"knowledge_query", "knowledge_show"} <= tools
    assert not tools & {"memory_list", "knowledge_propose"}


@pytest.mark.req("GW-012")
@in_one_minute
def test_what_is_refused_counts_as_a_query_and_asking_for_results_does_not(agents: Agents) -> None:
    shown, asking = agents.issue(), agents.issue()
    one, other = agents.register(shown), agents.register(asking, scopes=["read:tasks"])
    wrong: list[Any] = [{"tool": "nothing", "arguments": {}}, {"tool": "user_invite", "arguments": {}}, {"tool": 5}, []]
    poll = {"tool": "task_list", "arguments": {}}

    refused = [agents.ask(shown, one["secret"], body=wrong[number % 4]).status_code for number in range(PER_MIN + 1)]
    polled = [agents.ask(asking, other["secret"], body=poll).status_code for _ in range(PER_MIN + 1)]

    assert set(refused[:-1]) == {400, 404}
    assert refused[-1] == 429
    assert polled == [200] * (PER_MIN + 1)
    assert agents.ask(asking, other["secret"]).status_code == 200


@pytest.mark.req("GW-012")
@in_one_minute
def test_ten_queries_a_minute_are_answered_for_each_certificate_and_asking_is_counted_apart(agents: Agents) -> None:
    first, second = agents.issue(), agents.issue()
    one, other = agents.register(first), agents.register(second)

    codes = [agents.ask(first, one["secret"]).status_code for _ in range(PER_MIN + 1)]
    refused = agents.ask(first, one["secret"])

    assert codes == [200] * PER_MIN + [429]
    assert int(refused.headers["retry-after"]) > 0
    assert agents.ask(first, one["secret"], "/a2a/v1/capabilities", None).status_code == 200
    assert agents.ask(second, other["secret"]).status_code == 200


def test_registrations_are_those_of_the_tenant(
    agents: Agents, server: Server, gateway: Server, authority: PrivateAuthority
) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    rival = Agents(server, gateway, authority)

    assert rival.admin("GET", "/api/a2a-agents") == []
    assert [one["id"] for one in agents.admin("GET", "/api/a2a-agents")] == [agent["id"]]
    # The same certificate may be registered by another tenant, too: the key says for which it comes.
    theirs = rival.register(shown)
    told = rival.ask(shown, theirs["secret"]).json()["task"]["artifacts"][0]["parts"][0]["data"]
    assert told["tenant"] == rival.slug


def test_what_cannot_be_registered_is_refused_and_the_key_is_shown_once(agents: Agents) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    place = f"/api/a2a-agents/{agent['id']}"
    token = agents.home.token(tenant=agents.slug)
    narrow = agents.home.token(tenant=agents.slug, scopes=["manage:keys"])
    given = {"name": "again", "certificate": shown.certificate.read_text()}
    with agents.home.client(token) as admin:
        taken = admin.post("/api/a2a-agents", json=given)
        no_certificate = admin.post("/api/a2a-agents", json=given | {"certificate": "MIIB"})
        stale = admin.patch(place, json={"name": "new"}, headers={"if-match": '"v9"'})
        seen = admin.get(place).text
    with agents.home.client(narrow) as admin:
        too_wide = admin.post("/api/a2a-agents", json=given | {"certificate": agents.issue().certificate.read_text()})

    assert (taken.status_code, taken.json()["details"]["reason"]) == (409, "CERTIFICATE_TAKEN")
    assert (no_certificate.status_code, stale.status_code, too_wide.status_code) == (400, 412, 403)
    assert agent["secret"] not in seen


@pytest.fixture(scope="module")
def proxied(server: Server, authority: PrivateAuthority) -> Iterator[Server]:
    """The same installation behind a proxy that terminates TLS and hands on what its client showed."""
    with InProcess(
        beside(server)
        | {
            "DRAGOMAN_BEHIND_TLS_PROXY": "true",
            "DRAGOMAN_GATEWAY__CERT_HEADER": "X-Client-Cert",
            "DRAGOMAN_GATEWAY__CRL": str(authority.revocations),
            "DRAGOMAN_TLS_CLIENT_CA": str(authority.certificate),
        }
    ) as running:
        yield running


FORMS = {
    "nginx": lambda pem: quote(pem, safe=""),
    "envoy": lambda pem: f'By=spiffe://x;Hash=1;Cert="{quote(pem, safe="")}";Subject="CN=x"',
    "caddy": lambda pem: base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode(),
    "rfc 9440": lambda pem: f":{base64.b64encode(ssl.PEM_cert_to_DER_cert(pem)).decode()}:",
}


@pytest.mark.parametrize("form", FORMS)
def test_behind_a_proxy_the_certificate_comes_in_a_header(agents: Agents, proxied: Server, form: str) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    header = FORMS[form](shown.certificate.read_text())

    with proxied.client() as proxy:
        sent = {"x-api-key": agent["secret"], "x-client-cert": header}
        answered = proxy.post("/a2a/v1/query", json=SHOW, headers=sent)
        without = proxy.post("/a2a/v1/query", json=SHOW, headers={"x-api-key": agent["secret"]})

    assert (answered.status_code, without.status_code) == (200, 401)


def test_behind_a_proxy_what_the_header_holds_is_checked_here_too(
    agents: Agents, proxied: Server, tmp_path: Path
) -> None:
    foreign, shown = PrivateAuthority(tmp_path), agents.issue()
    foreign.create("Agents")
    agent = agents.register(shown)
    agents.authority.revoke(shown.name)
    for reason, certificate in {
        "client certificate expired, or not yet valid": agents.past().certificate.read_text(),
        "client certificate of an unknown authority": foreign.issue("x", days=1).certificate.read_text(),
        "client certificate unreadable": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "client certificate revoked": shown.certificate.read_text(),
    }.items():

        def refused(certificate: str = certificate, reason: str = reason) -> bool:
            sent = {"x-api-key": agent["secret"], "x-client-cert": quote(certificate, safe="")}
            with proxied.client() as proxy:
                answer = proxy.post("/a2a/v1/query", json=SHOW, headers=sent)
            return answer.status_code == 401 and reasons(proxied, answer) == [reason]

        wait_for(refused, reason)


def test_a_header_is_believed_from_trusted_proxies_alone(
    agents: Agents, server: Server, authority: PrivateAuthority
) -> None:
    shown = agents.issue()
    agent = agents.register(shown)
    elsewhere = beside(server) | {
        "DRAGOMAN_BEHIND_TLS_PROXY": "true",
        "DRAGOMAN_TRUSTED_PROXIES": "203.0.113.7",
        "DRAGOMAN_GATEWAY__CERT_HEADER": "X-Client-Cert",
        "DRAGOMAN_TLS_CLIENT_CA": str(authority.certificate),
    }
    with InProcess(elsewhere) as untrusting, untrusting.client() as intruder:
        sent = {"x-api-key": agent["secret"], "x-client-cert": quote(shown.certificate.read_text(), safe="")}
        refused = intruder.post("/a2a/v1/query", json=SHOW, headers=sent | {"x-forwarded-for": "203.0.113.7"})

    assert refused.status_code == 401


def doubled(pem: str) -> list[tuple[str, str]]:
    return [("x-client-cert", quote(pem, safe="")), ("x-client-cert", quote(pem, safe=""))]


def appended(pem: str) -> list[tuple[str, str]]:
    element = f'Hash=1;Cert="{quote(pem, safe="")}"'
    return [("x-client-cert", f"{element},{element}")]


@pytest.mark.parametrize("form", [doubled, appended])
def test_of_two_certificates_none_is_believed(agents: Agents, proxied: Server, form: Any) -> None:
    """A proxy that adds to what its client sent would let the client choose."""
    shown = agents.issue()
    agent = agents.register(shown)
    headers = [("x-api-key", agent["secret"]), *form(shown.certificate.read_text())]

    with proxied.client() as proxy:
        refused = proxy.post("/a2a/v1/query", json=SHOW, headers=headers)

    assert (refused.status_code, reasons(proxied, refused)) == (401, ["no client certificate"])


class Proxied(Agents):
    """Agents that come through a proxy of real TLS."""

    def __init__(self, home: Server, server: Server, authority: PrivateAuthority, address: str) -> None:
        super().__init__(home, server, authority)
        self.address = address

    def through(self, shown: Issued | None, key: str, **headers: str) -> httpx.Response:
        with httpx.Client(base_url=self.address, verify=self.trusting(shown), timeout=PATIENCE_S) as client:
            return client.post("/a2a/v1/query", json=SHOW, headers={"x-api-key": key, **headers})


@pytest.mark.parametrize("replaces", [True, False])
def test_a_real_proxy_hands_on_the_certificate_of_the_handshake_and_no_other(
    server: Server, proxied: Server, authority: PrivateAuthority, server_certificate: Issued, replaces: bool
) -> None:
    ca = str(authority.certificate)
    with tls_proxy(proxied.url, shown=server_certificate, client_ca=ca, replaces=replaces) as address:
        agents = Proxied(server, proxied, authority, address)
        mine, theirs = agents.issue(), agents.issue()
        me, victim = agents.register(mine), agents.register(theirs)
        forged = quote(theirs.certificate.read_text(), safe="")

        answered = agents.through(mine, me["secret"])
        crossed = agents.through(mine, victim["secret"])
        impersonated = agents.through(mine, victim["secret"], **{"X-Client-Cert": forged})
        with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
            agents.through(agents.past(), me["secret"])

    told = answered.json()["task"]["artifacts"][0]["parts"][0]["data"]
    assert told["subject"] == f"a2a-agent:{me['id']}"
    assert [crossed.status_code, impersonated.status_code] == [401, 401]


def test_a_proxy_that_replaces_the_header_keeps_those_without_a_certificate_out(
    server: Server, proxied: Server, authority: PrivateAuthority, server_certificate: Issued
) -> None:
    ca = str(authority.certificate)
    with tls_proxy(proxied.url, shown=server_certificate, client_ca=ca) as address:
        agents = Proxied(server, proxied, authority, address)
        shown = agents.issue()
        agent = agents.register(shown)
        forged = quote(shown.certificate.read_text(), safe="")

        assert agents.through(None, agent["secret"], **{"X-Client-Cert": forged}).status_code == 401
        assert agents.through(shown, agent["secret"]).status_code == 200
