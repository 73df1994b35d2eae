"""The way out: what must not be reached is not, however it is written and wherever it leads."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import httpx
import pytest
from anyio import fail_after

from dragoman.infra.outbound import Allowed, Guard, NotResolved, OutboundRefused
from dragoman.infra.outbound import guard as guarding
from dragoman.infra.outbound.addresses import Address, is_public
from dragoman.infra.outbound.guard import Names as SystemNames
from dragoman.infra.outbound.guard import ResponseTooLarge, resolving_for
from tests.patience import PATIENCE_S
from tests.receiver import Receiver, Reply

pytestmark = pytest.mark.anyio
PUBLIC = "93.184.215.14"


class Names:
    """A resolver that knows what it is told; a name has one list of addresses after the other."""

    def __init__(self, **answers: list[str]) -> None:
        self._answers = {name.replace("_", "."): [*given] for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:
        del port
        self.asked.append(host)
        answers = self._answers.get(host, [])
        given = answers.pop(0) if len(answers) > 1 else (answers or [""])[0]
        if not given:
            raise NotResolved("no such name")
        return [ip_address(one) for one in given.split(" ")]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "192.0.0.8", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]",
        "[ff02::1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:db8::1]", "[fec0::1]",
        "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
        "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.1", "017700000001", "1.2.3.4.5", "127.0.0.1.",
        "user@127.0.0.1", "example.com@127.0.0.1", "127.0.0.1%2f@example.com", "[fe80::1%25eth0]", "",
    ],
)  # fmt: skip
async def test_an_address_that_is_not_public_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(OutboundRefused):
        await Guard(resolve=Names()).check(f"https://{host}/hook")


@pytest.mark.parametrize(
    "url",
    [
        "", "hook", "//example.com", "ftp://example.com", "file:///etc/passwd", "gopher://example.com", "https://",
        "https://exa mple.com", "https://example.com\\@127.0.0.1", "https://example.com\n.evil", "https://exämple.com",
        "https://user:pw@example.com", "https://example.com:0", "https://example.com:70000", "https://" + "a" * 3000,
        "https://ex_ample..com", "https://-.example", "http://example.com/hook",
    ],
)  # fmt: skip
async def test_what_is_no_address_to_send_to_is_refused(url: str) -> None:
    with pytest.raises(OutboundRefused) as caught:
        await Guard(resolve=Names(example_com=[PUBLIC])).check(url)

    assert caught.value.code == "ADDRESS_REFUSED"


@pytest.mark.parametrize("led_to", ["127.0.0.1", "::1", "::ffff:10.0.0.1", f"{PUBLIC} 10.0.0.1", "169.254.169.254"])
async def test_a_name_that_leads_astray_is_refused(led_to: str) -> None:
    with pytest.raises(OutboundRefused):
        await Guard(resolve=Names(hooks_example=[led_to])).check("https://hooks.example/hook")


async def test_localhost_is_refused_by_where_it_leads() -> None:
    with pytest.raises(OutboundRefused):
        await Guard().check("https://localhost/hook")


@pytest.mark.parametrize("host", ["hooks.example", PUBLIC, "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]", "gone.example"])
async def test_a_public_address_is_let_through_and_so_is_a_name_that_leads_nowhere_today(host: str) -> None:
    guard = Guard(resolve=Names(hooks_example=[PUBLIC], inner_example=["10.1.2.3"]))

    await guard.check(f"https://{host}:8443/hook?a=b")

    with pytest.raises(OutboundRefused):
        await guard.check("https://inner.example:8443/hook?a=b")


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("hooks.internal", "http://hooks.internal/hook"),
        ("HOOKS.internal", "https://Hooks.Internal./hook"),
        ("10.0.0.0/8", "http://hooks.internal/hook"),
        ("10.1.2.3", "https://10.1.2.3/hook"),
        ("::1", "http://[::1]:9999/hook"),
    ],
)
async def test_what_the_operator_allows_is_reached_by_plain_http_too(allowed: str, url: str) -> None:
    guard = Guard(Allowed.of([allowed]), resolve=Names(hooks_internal=["10.1.2.3"]))

    await guard.check(url)

    with pytest.raises(OutboundRefused):
        await guard.check("http://127.0.0.1/hook")


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "https://x.example", "a b", "", "0x7f.1", "10.0.0.1/8"])
def test_an_entry_that_is_neither_a_host_nor_a_network_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="neither a host nor a network"):
        Allowed.of([entry])


async def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_judged(receiver: Receiver) -> None:
    """A name that leads elsewhere the next time it is asked for gains nothing by it."""
    names = Names(hooks_example=["127.0.0.1", "10.0.0.1"])
    port = httpx.URL(receiver.url).port
    guard = Guard(Allowed.of(["127.0.0.1"]), resolve=names)
    async with httpx.AsyncClient(transport=guard, trust_env=False, timeout=PATIENCE_S) as client:
        response = await client.post(f"http://hooks.example:{port}/hook", content=b"{}")

        assert (response.status_code, names.asked) == (200, ["hooks.example"])
        assert receiver.next().headers["host"] == f"hooks.example:{port}"
        with pytest.raises(OutboundRefused):
            await client.post(f"http://hooks.example:{port}/hook", content=b"{}")


async def test_a_redirect_to_a_private_address_is_refused_even_by_a_client_that_follows() -> None:
    with Receiver(Reply(307, {"location": "http://[::1]:1/inside"})) as leading:
        guard = Guard(Allowed.of(["127.0.0.1"]))
        client = httpx.AsyncClient(transport=guard, trust_env=False, follow_redirects=True, timeout=PATIENCE_S)
        async with client:
            with pytest.raises(OutboundRefused):
                await client.post(leading.url, content=b"{}")
        assert leading.next().path == "/hook"


async def test_an_answer_that_is_too_large_is_cut_off() -> None:
    with Receiver(Reply(body=b"x" * 5000)) as talking:
        guard = Guard(Allowed.of(["127.0.0.1"]), most_bytes=4000)
        async with httpx.AsyncClient(transport=guard, timeout=PATIENCE_S) as client:
            with pytest.raises(ResponseTooLarge):
                await client.post(talking.url, content=b"{}")


def test_what_hides_a_public_address_is_public() -> None:
    assert is_public(ip_address(f"::ffff:{PUBLIC}"))
    assert not is_public(ip_address("64:ff9b::a00:1"))


async def test_a_tenant_whose_names_are_not_answered_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for a name server cannot be stopped, and all of them waited for those of one tenant."""
    answered = threading.Event()

    def ask(host: str, port: int, **_: Any) -> list[Any]:
        if host.startswith("silent"):
            answered.wait(PATIENCE_S)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, port))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(guarding, "_RESOLVE_S", PATIENCE_S)
    names, greedy, other = SystemNames(), object(), object()
    with resolving_for(greedy):
        waiting = [asyncio.create_task(names(f"silent-{number}.example", 443)) for number in range(64)]
    await asyncio.sleep(0)

    with fail_after(PATIENCE_S), resolving_for(other):
        found = await names("hooks.example", 443)

    assert found == [ip_address(PUBLIC)]
    assert not any(task.done() for task in waiting)
    answered.set()
    await asyncio.gather(*waiting, return_exceptions=True)
