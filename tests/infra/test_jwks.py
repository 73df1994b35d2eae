"""Tokens of an issuer that is somebody else's: real HTTP, real outages."""

import asyncio
import base64
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.auth import jwks
from dragoman.infra.auth.jwks import Jwks
from dragoman.infra.breaker import Breakers
from dragoman.infra.outbound import Allowed, Clients
from dragoman.infra.telemetry import Metrics
from tests.harness import InProcess, Server, wait_for
from tests.issuers import ABSENT, ExternalIssuer, make_key, public_jwk
from tests.services.approvals.asking import NDA
from tests.tenants import beside, done, new_tenant, status_of


@pytest.fixture(scope="module")
def issuer() -> Iterator[ExternalIssuer]:
    with ExternalIssuer() as running:
        for kind in ("RS256", "ES256", "EdDSA"):
            running.add(kind, kind)
        yield running


@pytest.fixture(scope="module")
def shop(server: Server, issuer: ExternalIssuer) -> Iterator[Server]:
    """A server that trusts the issuer, beside the common one."""
    with InProcess(beside(server) | issuer.settings) as running:
        yield running


@pytest.fixture
def slug(server: Server) -> str:
    return new_tenant(server)


@pytest.mark.parametrize("kind", ["RS256", "ES256", "EdDSA"])
def test_tokens_of_each_algorithm_are_taken_from_an_external_issuer(
    shop: Server, issuer: ExternalIssuer, slug: str, kind: str
) -> None:
    with shop.client(issuer.token(kind, alg=kind, tenant=slug, scope="openid profile email")) as client:
        answer = done(client.get("/api/me"))

    assert (answer["subject"], answer["tenant"], answer["roles"], answer["scopes"]) == (
        "ada",
        slug,
        ["org_admin"],
        None,
    )


def test_scopes_of_our_own_limit_beside_those_of_openid(shop: Server, issuer: ExternalIssuer, slug: str) -> None:
    token = issuer.token("ES256", tenant=slug, scope="openid manage:keys accept:invitation")

    with shop.client(token) as client:
        answers = {path: client.get(path).status_code for path in ("/api/keys", "/api/users")}
        scopes = done(client.get("/api/me"))["scopes"]

    assert answers == {"/api/keys": 200, "/api/users": 403}
    assert scopes == ["manage:keys"]


@pytest.mark.req("GW-202")
@pytest.mark.parametrize(
    "changes",
    [{"iss": "https://evil.example"}, {"aud": "dragoman"}, {"aud": ["other"]}, {"key": make_key("ES256")},
     {"alg": "HS256", "key": "a secret that both sides might know!"}],
    ids=["issuer", "audience", "audiences", "signature", "hmac"],
)  # fmt: skip
def test_tokens_of_others_are_refused_with_an_external_issuer(
    shop: Server, issuer: ExternalIssuer, slug: str, changes: dict[str, Any]
) -> None:
    token = issuer.token("ES256", tenant=slug, **changes)

    assert status_of(shop, token) == 401


@pytest.mark.req("GW-202")
def test_tokens_of_the_embedded_issuer_are_refused_once_there_is_an_external_one(shop: Server, server: Server) -> None:
    assert status_of(shop, server.token()) == 401


@pytest.mark.req("GW-103")
def test_a_token_without_an_id_stays_revoked_when_its_signature_is_written_in_another_way(
    shop: Server, issuer: ExternalIssuer, slug: str
) -> None:
    token = issuer.token("ES256", tenant=slug, sub="eve", jti=ABSENT)
    with shop.client(token) as eve:
        done(eve.post("/api/keys", json={"name": "robot"}))
    with shop.client(issuer.token("ES256", tenant=slug)) as admin:
        [record] = done(admin.get("/api/audit", params={"subject": "eve"}))
        before = status_of(shop, respelled(token))
        done(admin.post("/api/tokens/revoke", json={"token_id": record["credential"]}))

    assert before == 200
    assert [status_of(shop, spelling) for spelling in (token, respelled(token))] == [401, 401]


def respelled(token: str) -> str:
    """The other signature that fits: (r, n - s) instead of (r, s)."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    signed, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    other = raw[:32] + (order - int.from_bytes(raw[32:])).to_bytes(32)
    return f"{signed}.{base64.urlsafe_b64encode(other).rstrip(b'=').decode()}"


def test_the_command_line_makes_no_tokens_once_there_is_an_external_issuer(
    shop: Server, issuer: ExternalIssuer
) -> None:
    answer = shop.cli("token")

    assert answer.returncode != 0
    assert "eyJ" not in answer.stdout
    assert issuer.url in answer.stderr


def test_the_key_of_the_card_is_published_where_no_tokens_are_made(shop: Server) -> None:
    with shop.client() as stranger:
        [signature] = stranger.get("/.well-known/agent-card.json").json()["signatures"]
        keys = stranger.get("/.well-known/jwks.json").json()["keys"]

    named = jwt.get_unverified_header(f"{signature['protected']}..{signature['signature']}")["kid"]
    assert [key["kid"] for key in keys] == [named]


def test_invitations_and_keys_work_beside_an_external_issuer(shop: Server, issuer: ExternalIssuer, slug: str) -> None:
    with shop.client(issuer.token("ES256", tenant=slug)) as admin:
        key = done(admin.post("/api/keys", json={"name": "robot"}))
        invited = done(admin.post("/api/users", json={"name": "Bo", "email": "bo@example.com"}))
    with shop.client(invited["invitation"]) as newcomer:
        accepted = done(newcomer.post("/api/users/accept", json={}))

    assert status_of(shop, key["secret"]) == 200
    assert (accepted["user"]["status"], accepted["token"]) == ("active", None)


def test_claims_are_read_where_the_settings_say_and_keys_where_discovery_says(
    server: Server, issuer: ExternalIssuer, slug: str
) -> None:
    settings = {
        "DRAGOMAN_ISSUER": issuer.url,
        "DRAGOMAN_AUDIENCE": "shop",
        "DRAGOMAN_CLAIMS_TENANT": "https://shop.example/org",
        "DRAGOMAN_CLAIMS_ROLES": "groups",
    }
    named = {"https://shop.example/org": slug, "groups": "viewer nobody"}
    token = issuer.token("ES256", tenant="demo", roles=["super_admin"], **named)

    with InProcess(beside(server) | settings) as running, running.client(token) as client:
        answer = done(client.get("/api/me"))

    assert (answer["tenant"], answer["roles"]) == (slug, ["viewer"])


def test_a_rotated_key_is_picked_up_once_and_forged_ids_do_not_flood_the_issuer(
    server: Server, slug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time between two requests to the issuer is over when the test says so."""
    monkeypatch.setattr(jwks, "_LEAST_BETWEEN_S", math.inf)
    with ExternalIssuer() as issuer:
        issuer.add("first")
        with InProcess(beside(server) | issuer.settings) as running:
            assert status_of(running, issuer.token("first", tenant=slug)) == 200
            issuer.add("second")
            rotated = issuer.token("second", tenant=slug)
            early = (status_of(running, rotated), issuer.fetches)
            monkeypatch.setattr(jwks, "_LEAST_BETWEEN_S", 0.0)
            later = (status_of(running, rotated), issuer.fetches)
            monkeypatch.setattr(jwks, "_LEAST_BETWEEN_S", math.inf)
            forged = [issuer.token(f"forged-{n}", tenant=slug, key=make_key("ES256")) for n in range(30)]
            with ThreadPoolExecutor(10) as pool:
                statuses = set(pool.map(lambda token: status_of(running, token), forged))

    assert (early, later) == ((401, 1), (200, 2))
    assert (statuses, issuer.fetches) == ({401}, 2)


@pytest.mark.req("GW-208")
def test_known_keys_go_on_working_while_the_issuer_is_away(server: Server, slug: str) -> None:
    with ExternalIssuer() as issuer:
        issuer.add("first")
        with InProcess(beside(server) | issuer.settings) as running:
            assert status_of(running, issuer.token("first", tenant=slug)) == 200
            issuer.close()
            fresh = issuer.token("first", tenant=slug, jti="made-while-away")

            assert status_of(running, fresh) == 200


@pytest.mark.req("GW-208")
@pytest.mark.parametrize("mood", ["away", "broken", "garbage"])
def test_an_issuer_that_was_never_reached_is_503_until_it_is_there(server: Server, slug: str, mood: str) -> None:
    with ExternalIssuer() as issuer:
        issuer.add("first")
        token = issuer.token("first", tenant=slug)
        issuer.mood = mood
        if mood == "away":
            issuer.close()
        with InProcess(beside(server) | issuer.settings) as running, running.client(token) as client:
            answers = [client.get("/api/me") for _ in range(6)]
            breakers = client.get("/health").json()["breakers"]
            fetched = issuer.fetches
            issuer.mood = "fine"
            if mood == "away":
                issuer.open()

            wait_for(lambda: client.get("/api/me").status_code == 200, "the issuer's return")

    assert {(a.status_code, a.json()["code"], "retry-after" in a.headers) for a in answers} == {
        (503, "UPSTREAM_UNAVAILABLE", True)
    }
    assert breakers == {"jwks": "open"}
    assert fetched <= 5


@pytest.mark.req("GW-208")
def test_an_issuer_that_hangs_holds_up_nobody_else(server: Server, slug: str) -> None:
    with server.client(server.token(tenant=slug)) as admin:
        key = done(admin.post("/api/keys", json={"name": "robot"}))["secret"]
    with ExternalIssuer() as issuer:
        issuer.add("first")
        issuer.mood = "silent"
        with InProcess(beside(server) | issuer.settings) as running, ThreadPoolExecutor(4) as pool:
            tokens = [issuer.token("first", tenant=slug, jti=f"t{n}") for n in range(4)]
            held = [pool.submit(status_of, running, token) for token in tokens]
            wait_for(lambda: issuer.fetches, "the request to the issuer")

            other = status_of(running, key)

            assert (other, [answer.done() for answer in held]) == (200, [False] * 4)
            assert {answer.result() for answer in held} == {503}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_jwks(url: str, clock: Clock) -> Jwks:
    return Jwks(url=url, issuer=None, outgoing=Clients(Breakers(metrics=Metrics()), Allowed()), clock=clock)


async def test_all_who_look_for_a_key_at_once_wait_for_one_answer() -> None:
    clock = Clock()
    with ExternalIssuer() as issuer:
        issuer.add("first")
        keys = make_jwks(f"{issuer.url}/keys", clock)
        found = await asyncio.gather(*(keys.find("first") for _ in range(20)))
        fetched = issuer.fetches
        issuer.add("second")
        clock.now += 11

        rotated = await asyncio.gather(*(keys.find("second") for _ in range(20)))

    assert (all(found), fetched) == (True, 1)
    assert (all(rotated), issuer.fetches) == (True, 2)


async def test_an_unknown_key_is_looked_for_once_in_ten_seconds() -> None:
    clock = Clock()
    with ExternalIssuer() as issuer:
        issuer.add("first")
        keys = make_jwks(f"{issuer.url}/keys", clock)
        await keys.find("first")
        issuer.add("second")
        clock.now += 9.9
        early = await keys.find("second")
        clock.now += 0.1
        later = await keys.find("second")

    assert (early, later is not None, issuer.fetches) == (None, True, 2)


async def test_a_key_that_the_issuer_withdrew_is_forgotten_when_it_is_fetched_anew() -> None:
    clock = Clock()
    with ExternalIssuer() as issuer:
        issuer.add("good")
        issuer.add("leaked")
        keys = make_jwks(f"{issuer.url}/keys", clock)
        assert await keys.find("leaked") is not None
        issuer.drop("leaked")
        clock.now += 301

        assert await keys.find("unheard-of") is None

        assert await keys.find("leaked") is None
        assert await keys.find("good") is not None


async def test_a_stale_key_is_used_at_once_while_the_issuer_hangs() -> None:
    clock = Clock()
    with ExternalIssuer() as issuer:
        issuer.add("good")
        keys = make_jwks(f"{issuer.url}/keys", clock)
        await keys.find("good")
        issuer.mood = "silent"
        clock.now += 301

        found = [await keys.find("good") for _ in range(20)]

    assert all(found)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        {"keys": None},
        {"keys": 7},
        {"keys": ["text", None, []]},
        {"keys": [{"kty": "martian"}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}]},
        {"keys": [{"kty": "EC", "crv": "P-256"}]},
        {"keys": [{"kty": "RSA", "n": 7, "e": 7}]},
    ],
    ids=repr,
)
async def test_keys_that_cannot_be_used_are_an_issuer_that_is_away(answer: Any) -> None:
    with ExternalIssuer() as issuer:
        issuer.published = answer
        keys = make_jwks(f"{issuer.url}/keys", Clock())

        with pytest.raises(UpstreamUnavailable):
            await keys.find("any")


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/keys", "http://[::1", "ftp://example.com/keys", "nonsense"])
async def test_an_address_that_cannot_be_asked_is_an_issuer_that_is_away(address: str) -> None:
    with pytest.raises(UpstreamUnavailable):
        await make_jwks(address, Clock()).find("any")


async def test_one_broken_key_and_one_for_encryption_do_not_hide_the_good_one() -> None:
    good = {**public_jwk(make_key("ES256")), "kid": "good"}
    answer = {"keys": [{"kty": "RSA", "kid": "broken"}, {**good, "kid": "sealed", "use": "enc"}, good]}
    with ExternalIssuer() as issuer:
        issuer.published = answer
        keys = make_jwks(f"{issuer.url}/keys", Clock())

        found = [await keys.find(kid) is not None for kid in ("good", "broken", "sealed")]

    assert found == [True, False, False]


@pytest.mark.parametrize(
    ("settings", "person", "machine"),
    [({}, {"type": "user"}, {"gty": "client-credentials"}),
     ({"DRAGOMAN_CLAIMS_KIND": "idtyp"}, {"idtyp": "user"}, {"idtyp": "app", "type": "user"}),
     ({"DRAGOMAN_CLAIMS_KIND": "auth_time", "DRAGOMAN_CLAIMS_PEOPLE": "*"}, {"auth_time": 1_790_000_000}, {})],
    ids=["ours", "named", "present"],
)  # fmt: skip
def test_a_token_that_does_not_prove_a_person_decides_nothing_that_is_for_people(
    server: Server,
    issuer: ExternalIssuer,
    slug: str,
    settings: dict[str, str],
    person: dict[str, Any],
    machine: dict[str, Any],
) -> None:
    with InProcess(beside(server) | issuer.settings | settings) as running:
        tokens = [issuer.token("RS256", alg="RS256", tenant=slug, sub=f"sub-{number}", roles=["operator"], **claims)
                  for number, claims in enumerate((person, person, machine))]  # fmt: skip
        with running.client(tokens[0]) as asks, running.client(tokens[1]) as bob, running.client(tokens[2]) as robot:
            asked = done(asks.post("/api/approvals", json=NDA))
            path, verdict = f"/api/approvals/{asked['approval_id']}/decide", {"decision": "approve"}
            by_machine = robot.post(path, json={**verdict, "digest": asked["digest"]}).json()
            shown = [done(client.get("/api/me"))["person"] for client in (bob, robot)]
            by_person = done(bob.post(path, json=verdict))

    assert (by_machine["code"], by_machine["details"]["reason"]) == ("APPROVAL_RESERVED", "PEOPLE_ONLY")
    assert (shown, by_person["state"]) == ([True, False], "approved")


def test_a_bearer_of_unknown_kind_does_not_read_the_memories_of_others(
    shop: Server, issuer: ExternalIssuer, slug: str
) -> None:
    """A program may, for it works for users; a token that states nothing must not pass for one."""
    with shop.client(issuer.token("ES256", tenant=slug, roles=["operator"])) as unknown:
        refused = unknown.post("/api/memories/search", json={"query": "salary", "ids": {"user_id": "somebody-else"}})

    assert refused.status_code == 403
