"""The site: probes, metrics, documents, and a page that needs nothing from elsewhere."""

import gzip
import re
from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from dragoman.addresses import bindings
from dragoman.context import RequestContext, current_request, enter_request
from dragoman.doors.rest.openapi import build_openapi
from dragoman.doors.rest.site import SITE_PATHS, Shown, Site
from dragoman.infra.edge import AsgiScope, Receive, Send
from dragoman.infra.telemetry import Health, Metrics, Scrapes
from dragoman.services.workers.profile import ProfileService

pytestmark = pytest.mark.anyio
DOCUMENT = build_openapi(bindings(), version="1.2.3", site=SITE_PATHS)
KEYS = {"keys": [{"kty": "EC", "kid": "1"}]}
REQUEST_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
LINK = re.compile(r'(?:href|src)="([^"]+)"')


class World:
    """A site, and what it stands on."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.health = Health(version="1.2.3", metrics=self.metrics, reuse_s=0)
        self.ready = True
        self.routes: list[str] = []
        profiles = ProfileService((), endpoints=lambda _: (), here=lambda: "")
        shown = Shown(KEYS["keys"], lambda: DOCUMENT, profiles.profile)
        self.site = Site(self.health, Scrapes(self.metrics.render), shown, ready=lambda: self.ready)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        enter_request(RequestContext(id=REQUEST_ID, door="http"))
        await self.site(scope, receive, send)
        request = current_request()
        assert request is not None
        self.routes.append(request.route)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"accept-encoding": "identity"}
    transport = httpx.ASGITransport(world)
    async with httpx.AsyncClient(transport=transport, base_url="http://dragoman", headers=headers) as client:
        yield client


async def test_home_leads_to_the_page(client: httpx.AsyncClient) -> None:
    response = await client.get("/")

    assert (response.status_code, response.headers["location"]) == (307, "/docs")


@pytest.mark.req("GW-405")
async def test_every_documented_site_path_is_served(client: httpx.AsyncClient, world: World) -> None:
    for place in SITE_PATHS:
        response = await client.get(place.path.replace("{asset}", "init.js"))
        told = DOCUMENT["paths"][place.path]["get"]["responses"][str(response.status_code)]
        media_type = response.headers.get("content-type", "").partition(";")[0]
        assert not told.get("content") or media_type in told["content"]

    assert world.routes == [place.path for place in SITE_PATHS]


@pytest.mark.req("GW-105")
async def test_health_is_200_while_the_server_can_work(client: httpx.AsyncClient, world: World) -> None:
    async def away() -> None:
        raise ConnectionError

    world.health.register("cache", away, critical=False)

    response = await client.get("/health")

    assert response.status_code == 200
    assert response.json()["status"] == "degraded"
    assert response.headers["cache-control"] == "no-store"


async def test_health_is_503_when_it_cannot(client: httpx.AsyncClient, world: World) -> None:
    async def away() -> None:
        raise ConnectionError

    world.health.register("database", away, critical=True)

    response = await client.get("/health")

    assert response.status_code == 503
    assert response.json()["status"] == "down"
    assert int(response.headers["retry-after"]) > 0


@pytest.mark.req("GW-105")
async def test_ready_follows_the_server(client: httpx.AsyncClient, world: World) -> None:
    before = await client.get("/ready")
    world.ready = False
    after = await client.get("/ready")

    assert (before.status_code, before.json()) == (200, {"ready": True})
    assert (after.status_code, after.json()) == (503, {"ready": False})
    assert "retry-after" in after.headers


async def test_metrics_are_what_prometheus_reads(client: httpx.AsyncClient, world: World) -> None:
    world.metrics.http.observe("GET", "/docs", 200, 0.1)

    response = await client.get("/metrics")

    assert response.headers["content-type"].startswith("text/plain")
    assert 'dragoman_http_requests_total{method="GET",route="/docs",status="200"} 1.0' in response.text


async def test_the_public_keys_are_shown(client: httpx.AsyncClient) -> None:
    shown = await client.get("/.well-known/jwks.json")

    assert shown.json() == KEYS


@pytest.mark.req("GW-405")
async def test_the_documents_are_served(client: httpx.AsyncClient) -> None:
    newer = await client.get("/openapi.json")
    older = await client.get("/openapi-3.0.json")

    assert orjson.loads(newer.content) == DOCUMENT
    assert older.json()["openapi"] == "3.0.3"
    assert (await client.get("/openapi-3.0.json")).content == older.content


@pytest.mark.req("GW-405")
async def test_the_page_refers_to_this_server_alone_and_all_of_it_is_there(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    links: list[str] = LINK.findall(page.text)

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert any(link.startswith("/docs/swagger-ui-bundle.js") for link in links)
    assert all(re.match(r"/(?!/)", link) for link in links)
    assert "://" not in page.text
    for link in links:
        assert (await client.get(link)).status_code == 200, link


async def test_the_page_runs_under_a_strict_policy(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon\w+=", page.text)


async def test_the_page_asks_no_foreign_validator_and_keeps_the_credentials(client: httpx.AsyncClient) -> None:
    script = (await client.get("/docs/init.js")).text

    for setting in ("validatorUrl: null", "persistAuthorization: true", "deepLinking: true", "tryItOutEnabled: true"):
        assert setting in script


async def test_an_asset_is_kept_for_ever_under_its_digest_only(client: httpx.AsyncClient) -> None:
    page = await client.get("/docs")
    links = [link for link in LINK.findall(page.text) if link.startswith("/docs/")]

    assert len(links) == 5
    for link in links:
        named = await client.get(link)
        bare = await client.get(link.partition("?")[0])
        assert named.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert bare.headers["cache-control"] == "no-cache"
        assert named.content == bare.content


@pytest.mark.parametrize("path", ["/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/openapi.json", "/docs"])
async def test_large_files_travel_packed_when_the_client_takes_it(client: httpx.AsyncClient, path: str) -> None:
    plain = await client.get(path)
    async with client.stream("GET", path, headers={"accept-encoding": "br, gzip"}) as response:
        packed = b"".join([piece async for piece in response.aiter_raw()])
    refused = await client.get(path, headers={"accept-encoding": "gzip;q=0"})

    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["content-length"] == str(len(packed))
    assert response.headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed) == plain.content
    assert "content-encoding" not in refused.headers


async def test_head_says_what_get_would_without_the_body(client: httpx.AsyncClient) -> None:
    for path in ("/docs", "/openapi.json", "/ready", "/docs/init.js"):
        whole = await client.get(path)
        head = await client.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers == whole.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_other_methods_are_refused_by_name(client: httpx.AsyncClient, method: str) -> None:
    for place in SITE_PATHS:
        response = await client.request(method, place.path.replace("{asset}", "init.js"))
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, HEAD"
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/docs/", "/docs/{asset}", "/docs/LICENSE", "/docs/../site.py", "/docs/%2e%2e/site.py", "/health/"],
)
async def test_an_unknown_path_is_a_problem(client: httpx.AsyncClient, world: World, path: str) -> None:
    response = await client.get(path)

    assert response.status_code == 404
    assert response.json()["code"] == "NOT_FOUND"
    assert response.json()["requestId"] == REQUEST_ID
    assert world.routes == [""]
