"""Credentials that do not validate: all refused, all alike, and the log alone knows why."""

import hmac
import http.client
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dragoman.errors import Unauthenticated
from dragoman.infra.auth.tokens import Grant, Issuer, TokenVerifier
from tests.harness import Server
from tests.issuers import ABSENT, claims, glue, make_key, public_jwk, public_pem, sign
from tests.patience import PATIENCE_S
from tests.tenants import done, new_tenant, query, status_of

CHALLENGE = 'Bearer realm="dragoman", error="invalid_token"'
Headers = dict[str, str]


@dataclass(frozen=True)
class Case:
    """What is presented, and a word of the reason that the log must give."""

    name: str
    reason: str
    headers: Callable[[Server], Headers]


def bearer(name: str, reason: str, make: Callable[[Server], str]) -> Case:
    return Case(name, reason, lambda server: {"authorization": f"Bearer {make(server)}"})


def changed(name: str, reason: str, **changes: Any) -> Case:
    """Signed by the right key, so that nothing but the claims can be why it is refused."""
    return bearer(name, reason, lambda server: sign(server, claims(**changes)))


def hmac_with_public_key(server: Server) -> str:
    kid = server.issuer().jwks()["keys"][0]["kid"]
    head, body, _ = glue({"alg": "HS256", "typ": "JWT", "kid": kid}, claims()).split(".")
    signature = hmac.digest(public_pem(server), f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{glue('', '', signature).rpartition('.')[2]}"


def of_tenant(status: str) -> Callable[[Server], str]:
    def make(server: Server) -> str:
        slug = new_tenant(server)
        with server.admin() as platform:
            if status == "suspended":
                done(platform.post(f"/api/tenant/{slug}/suspend"))
            else:
                done(platform.delete(f"/api/tenant/{slug}"))
        return server.token(tenant=slug)

    return make


def new_key(server: Server) -> dict[str, Any]:
    with server.client(server.token()) as admin:
        return done(admin.post("/api/keys", json={"name": "robot"}))


def wrong_secret(server: Server) -> str:
    secret = new_key(server)["secret"]
    return secret[:-1] + ("0" if secret[-1] != "0" else "1")


def expired_key(server: Server) -> str:
    key = new_key(server)
    query(server, "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE id = $1", key["id"])
    return key["secret"]


def revoked_key(server: Server) -> str:
    key = new_key(server)
    with server.client(server.token()) as admin:
        done(admin.delete(f"/api/keys/{key['id']}"))
    return key["secret"]


def revoked_key_unknown_to_valkey(server: Server) -> str:
    key = new_key(server)
    query(server, "UPDATE api_keys SET revoked_at = now() WHERE id = $1", key["id"])
    return key["secret"]


def as_header(name: str, reason: str, make: Callable[[Server], str]) -> Case:
    return Case(name, reason, lambda server: {"x-api-key": make(server)})


def forged(server: Server) -> str:
    return sign(server, claims(), key=make_key("ES256"))


def with_own_key(server: Server) -> str:
    key = make_key("ES256")
    return sign(server, claims(), key=key, jwk=public_jwk(key), jku="https://evil.example/keys")


def unsigned(server: Server) -> str:
    return sign(server, claims()).rpartition(".")[0] + "."


def swapped_body(server: Server) -> str:
    head, _, signature = sign(server, claims()).split(".")
    body = glue({}, claims(roles=["super_admin"])).split(".")[1]
    return f"{head}.{body}.{signature}"


def nested(depth: int) -> str:
    return glue('{"alg":' + "[" * depth + "]" * depth + "}", "{}")


HOUR = 3600
CASES = [
    bearer("garbage", "jwt refused", lambda _: "garbage-that-is-no-token"),
    bearer("dots only", "jwt refused", lambda _: ".."),
    bearer("two parts", "jwt refused", lambda _: "abcdefgh.abcdefgh"),
    bearer("header is a list", "jwt refused", lambda _: glue("[]", "{}")),
    bearer("header is a number", "jwt refused", lambda _: glue("7", "{}")),
    bearer("nested 5000 deep", "", lambda _: nested(5000)),
    bearer("header of bytes", "jwt refused", lambda _: "/////.e30.e30"),
    bearer("100 kB", "too long", lambda _: "zq7-" * 25_000),
    bearer("60 kB of header", "too long", lambda server: sign(server, claims(), pad="x" * 45_000)),
    bearer("forged signature", "Signature verification failed", forged),
    bearer("unsigned", "Signature verification failed", unsigned),
    bearer("body swapped", "Signature verification failed", swapped_body),
    bearer("unknown key id", "unknown key", lambda server: sign(server, claims(), kid="another")),
    bearer("a key of its own in the header", "Signature verification failed", with_own_key),
    bearer("a rule that must be understood", "crit", lambda server: sign(server, claims(), crit=["pay"], pay=1)),
    bearer("five parts", "jwt refused", lambda server: sign(server, claims()) + ".e30.e30"),
    bearer("two tokens", "jwt refused", lambda server: f"{server.token()},{server.token()}"),
    bearer("no key id", "unknown key", lambda _: glue({"alg": "ES256"}, claims())),
    bearer("key id is a number", "Key ID", lambda _: glue({"alg": "ES256", "kid": 7}, claims())),
    bearer("alg none", "'none'", lambda _: glue({"alg": "none", "typ": "JWT"}, claims(), b"")),
    bearer("alg None", "'NoNe'", lambda _: glue({"alg": "NoNe", "typ": "JWT"}, claims(), b"")),
    bearer("alg missing", "None", lambda _: glue({"typ": "JWT"}, claims())),
    bearer("alg is a list", "not accepted", lambda _: glue({"alg": ["ES256"]}, claims())),
    bearer("alg confusion", "HS256", hmac_with_public_key),
    bearer("alg of another kind", "alg", lambda server: sign(server, claims(), key=make_key("RS256"), alg="RS256")),
    changed("expired", "expired", exp=int(time.time()) - HOUR, iat=int(time.time()) - 2 * HOUR),
    changed("other audience", "Audience", aud="someone-else"),
    changed("no audience", "aud", aud=ABSENT),
    changed("other issuer", "issuer", iss="https://evil.example"),
    changed("no issuer", "iss", iss=ABSENT),
    changed("no exp", "exp", exp=ABSENT),
    changed("no iat", "iat", iat=ABSENT),
    changed("no sub", "sub", sub=ABSENT),
    changed("not yet valid", "not yet valid", nbf=int(time.time()) + HOUR),
    changed("issued in the future", "not yet valid", iat=int(time.time()) + HOUR),
    changed("exp is a text", "numbers", exp=str(int(time.time()) + HOUR)),
    changed("exp is a list", "exp", exp=[1]),
    changed("exp beyond numbers", "numbers", exp=10**400),
    changed("exp infinite", "exp", exp=float("inf")),
    changed("iat is true", "numbers", iat=True),
    changed("iat is nested", "iat", iat={"a": [1]}),
    changed("jti is a list", "JWT ID", jti=["a"]),
    changed("jti with a null byte", "token id", jti="a\x00b"),
    changed("jti of 10 kB", "token id", jti="j" * 10_000),
    changed("scope is a number", "scopes", scope=7),
    changed("scope is nested", "scopes", scope={"a": {"b": "c"}}),
    changed("tenant unknown", "unknown", tenant="no-such-tenant"),
    changed("tenant missing", "unknown", tenant=ABSENT),
    changed("tenant is a number", "unknown", tenant=1),
    changed("tenant is a list", "unknown", tenant=["demo"]),
    changed("tenant with a null byte", "unknown", tenant="de\x00mo"),
    changed("tenant with half a letter", "unknown", tenant="demo\ud800"),
    changed("tenant in capitals", "unknown", tenant="DEMO"),
    changed("subject with a null byte", "subject", sub="ada\x00"),
    changed("subject with half a letter", "subject", sub="ada\ud800"),
    changed("subject with an invisible letter", "subject", sub="ad\u200ba"),
    changed("subject with a look-alike", "subject", sub="\ufb01ona"),
    changed("subject decomposed", "subject", sub="A\u030asa"),
    changed("subject with outer blanks", "subject", sub=" ada"),
    changed("subject empty", "subject", sub=""),
    changed("subject of 10 kB", "subject", sub="s" * 10_000),
    bearer("tenant suspended", "suspended", of_tenant("suspended")),
    bearer("tenant deleted", "deleted", of_tenant("deleted")),
    bearer("key unknown", "api key unknown", lambda _: f"dgm_{uuid4().hex}_{secrets.token_hex(32)}"),
    bearer("key with a wrong secret", "api key unknown", wrong_secret),
    bearer("key expired", "api key expired", expired_key),
    bearer("key revoked", "revoked", revoked_key),
    bearer("key revoked long ago", "revoked", revoked_key_unknown_to_valkey),
    as_header("key header with a wrong secret", "api key unknown", wrong_secret),
    as_header("key header malformed", "malformed", lambda _: "dgm_nothing"),
    as_header("key header with half a key", "malformed", lambda server: new_key(server)["secret"][:-1]),
    as_header("key header with a token in it", "malformed", lambda server: server.token()),
    as_header("key header with an invitation in it", "malformed", lambda _: "inv_" + secrets.token_urlsafe(32)),
    bearer("invitation unknown", "invitation", lambda _: "inv_" + secrets.token_urlsafe(32)),
    Case("no scheme", "bearer", lambda server: {"authorization": server.token()}),
    Case("an invitation without a scheme", "bearer", lambda _: {"authorization": "inv_" + secrets.token_urlsafe(32)}),
    Case("basic", "bearer", lambda _: {"authorization": "Basic YWRtaW46YWRtaW4tc2VjcmV0"}),
    Case("scheme in another alphabet", "bearer", lambda _: {"authorization": "\u00deearer some-secret-value"}),
    Case("empty bearer", "bearer", lambda _: {"authorization": "Bearer "}),
    Case("token and key", "both",
         lambda server: {"authorization": f"Bearer {server.token()}", "x-api-key": new_key(server)["secret"]}),
    Case("token and a wrong key", "both",
         lambda server: {"authorization": f"Bearer {server.token()}", "x-api-key": wrong_secret(server)}),
]  # fmt: skip


def ask(server: Server, headers: Headers) -> tuple[str, tuple[int, str | None, dict[str, Any]]]:
    """Return the id of the request and its answer; below httpx, which would refuse to send some of this."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    connection.putrequest("GET", "/api/me")
    for name, value in headers.items():
        connection.putheader(name, value.encode("latin-1"))
    connection.endheaders()
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    request_id = response.getheader("x-request-id") or ""
    return request_id, (response.status, response.getheader("www-authenticate"), body)


def refused(request_id: str) -> dict[str, Any]:
    """The whole of what anybody is told."""
    return {
        "type": "urn:dragoman:error:UNAUTHENTICATED",
        "title": "Unauthorized",
        "status": 401,
        "detail": "valid credentials are required",
        "instance": f"urn:uuid:{request_id}",
        "code": "UNAUTHENTICATED",
        "retryable": False,
        "requestId": request_id,
    }


@pytest.mark.req("GW-202")
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_invalid_credentials_get_the_same_401_and_the_log_says_why(server: Server, case: Case) -> None:
    headers = case.headers(server)

    request_id, answer = ask(server, headers)

    assert answer == (401, CHALLENGE, refused(request_id))
    [event] = server.security_events(of=request_id)
    assert event["event"] == "credentials_rejected"
    assert case.reason in event["reason"]
    written = json.dumps([server.log_lines(), server.security_events()])
    shown = [value.rpartition(" ")[2][:20] for value in headers.values()]
    assert [part for part in shown if len(part) > 8 and part in written] == []


@pytest.mark.req("GW-202")
def test_no_credentials_at_all_get_401_without_an_error_code(server: Server) -> None:
    request_id, answer = ask(server, {})

    assert answer == (401, 'Bearer realm="dragoman"', refused(request_id))
    [event] = server.security_events(of=request_id)
    assert event["reason"] == "no credentials"


@pytest.mark.req("GW-202")
def test_every_address_under_api_needs_credentials_whether_it_exists_or_not(server: Server) -> None:
    with server.client() as stranger:
        paths = ("/api/users", "/api/keys", "/api/me", "/api/nothing", "/api/", "/api/users/../me")
        methods = ("GET", "POST", "DELETE", "PUT")
        statuses = {stranger.request(method, path).status_code for method in methods for path in paths}

    assert statuses == {401}


def test_a_scheme_is_read_without_regard_to_case(server: Server) -> None:
    with server.client() as client:
        answer = client.get("/api/me", headers={"authorization": f"bEaReR  {server.token(user='ada')}"})

    assert done(answer)["subject"] == "ada"


def test_a_token_names_its_tenant_by_slug_or_id(server: Server) -> None:
    slug = new_tenant(server)
    with server.admin() as platform:
        tenant_id = done(platform.get(f"/api/tenant/{slug}"))["id"]

    statuses = [status_of(server, server.token(tenant=ref)) for ref in (slug, tenant_id)]

    assert statuses == [200, 200]


def test_a_slug_that_looks_like_an_id_is_refused(server: Server) -> None:
    """Else a token for one tenant, named by its id, could be read as one for another, named by its slug."""
    with server.admin() as platform:
        answer = platform.post("/api/tenant", json={"name": "Trap", "slug": str(uuid4())})

    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PARAMS")


class CountingKeys:
    """A source of keys that counts how often it is asked."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self.asked = 0

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        self.asked += 1
        return await self._issuer.find(key_id)


def make_issuer() -> Issuer:
    return Issuer(ec.generate_private_key(ec.SECP256R1()), audience="dragoman", ttl_s=60)


@pytest.mark.req("GW-103")
async def test_a_signature_is_checked_once_for_each_token() -> None:
    issuer = make_issuer()
    keys = CountingKeys(issuer)
    verifier = TokenVerifier(keys, issuer="dragoman", audience="dragoman")
    first, second = (issuer.mint(Grant("demo", "ada", ["viewer"])) for _ in range(2))

    answers = [await verifier.verify(token) for token in (first, first, second, first)]

    assert keys.asked == 2
    assert [answer["jti"] == answers[0]["jti"] for answer in answers] == [True, True, False, True]


@pytest.mark.req("GW-103")
async def test_what_is_remembered_of_a_token_ends_with_the_token() -> None:
    now = time.time()
    issuer = make_issuer()
    verifier = TokenVerifier(issuer, issuer="dragoman", audience="dragoman", clock=lambda: now)
    token = issuer.mint(Grant("demo", "ada", ["viewer"]))
    await verifier.verify(token)
    now += 66

    with pytest.raises(Unauthenticated) as caught:
        await verifier.verify(token)

    assert caught.value.reason == "token expired"


@pytest.mark.req("GW-103")
async def test_no_token_is_accepted_longer_than_revocations_are_remembered() -> None:
    now = time.time()
    issuer = Issuer(ec.generate_private_key(ec.SECP256R1()), audience="dragoman", ttl_s=100_000)
    verifiers = [
        TokenVerifier(issuer, issuer="dragoman", audience="dragoman", max_age_s=300, clock=lambda: now) for _ in "ab"
    ]
    token = issuer.mint(Grant("demo", "ada", ["viewer"]))
    claims = await verifiers[0].verify(token)
    now += 306

    refused: list[str] = []
    for verifier in verifiers:
        with pytest.raises(Unauthenticated) as caught:
            await verifier.verify(token)
        refused.append(caught.value.reason)

    assert claims["exp"] == claims["iat"] + 300
    assert refused == ["token expired", "token is older than any may be"]


@pytest.mark.req("GW-103")
async def test_a_forgery_is_never_remembered_as_valid() -> None:
    issuer = make_issuer()
    verifier = TokenVerifier(issuer, issuer="dragoman", audience="dragoman")
    token = issuer.mint(Grant("demo", "ada", ["viewer"]))
    await verifier.verify(token)
    head, body, _ = token.split(".")

    for forgery in (f"{head}.{body}.{'A' * 86}", f"{head}.{body}.", f"{head}.{body}"):
        with pytest.raises(Unauthenticated):
            await verifier.verify(forgery)
        with pytest.raises(Unauthenticated):
            await verifier.verify(forgery)
