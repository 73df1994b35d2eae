"""Which addresses may be reached: what the world can reach too, and what the operator allows."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import httpx

from dragoman.errors import DragomanError, Kind

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_LONGEST: Final = 2048
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
# What Python calls global and is not, or carries an address of version 4 that must be looked at by itself.
_NEVER: Final[tuple[Network, ...]] = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "::/96", "64:ff9b:1::/48", "fec0::/10", "5f00::/16"))
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


class OutboundRefused(DragomanError):
    """An address that this server does not send anything to."""

    kind, code = Kind.INVALID, "ADDRESS_REFUSED"


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of an address that decide about it; `literal` when its host is no name."""

    url: httpx.URL
    host: str
    port: int
    literal: Address | None

    @property
    def encrypted(self) -> bool:
        """Whether it is spoken to by TLS."""
        return self.url.scheme == "https"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator allows beyond the rules: hosts by their names, and networks."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> "Allowed":
        """From names, addresses and networks such as 10.0.0.0/8.

        Raises:
            ValueError: an entry is none of these.
        """
        hosts: set[str] = set()
        networks: list[Network] = []
        for entry in entries:
            try:
                networks.append(ip_network(entry.strip("[]")))
            except ValueError:
                if not _HOST.fullmatch(entry.lower()) or _ends_in_a_number(entry):
                    raise ValueError(f"{entry!r} is neither a host nor a network such as 10.0.0.0/8") from None
                hosts.add(entry.lower().rstrip("."))
        return cls(frozenset(hosts), tuple(networks))

    def has_host(self, host: str) -> bool:
        """Whether a host is allowed, wherever it leads."""
        return host in self.hosts

    def has_address(self, address: Address) -> bool:
        """Whether an address lies in an allowed network."""
        return any(address.version == network.version and address in network for network in self.networks)


def read_target(url: str) -> Target:
    """Take an address apart, with the parser that will also send to it.

    Raises:
        OutboundRefused: it is none, or one of the kinds that are written to be misread.
    """
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or any(sign in url for sign in ' \\"<>'):
        raise OutboundRefused(f"an address has at most {_LONGEST} plain characters")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise OutboundRefused(f"no address: {error}") from None
    if parsed.scheme not in ("http", "https"):
        raise OutboundRefused("an address begins with https://")
    if parsed.userinfo or "@" in url.partition("://")[2].partition("/")[0]:
        raise OutboundRefused("an address must not hold a user or a password")
    host = parsed.host.lower().rstrip(".")
    literal = _literal(host)
    if literal is None and (not _HOST.fullmatch(host) or _ends_in_a_number(host)):
        raise OutboundRefused("the host must be a name, or an address in its usual form")
    port = parsed.port if parsed.port is not None else 443 if parsed.scheme == "https" else 80
    if not 0 < port < 65536:
        raise OutboundRefused("there is no such port")
    return Target(parsed, host, port, literal)


def is_public(address: Address) -> bool:
    """Whether the whole world can reach it; what hides an address of version 4 is judged by that."""
    if isinstance(address, IPv6Address) and (hidden := _hidden(address)) is not None:
        return is_public(hidden)
    if any(address.version == network.version and address in network for network in _NEVER):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _hidden(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _ends_in_a_number(host: str) -> bool:
    """Decimal, octal and hexadecimal ways to write an address: resolvers take them, readers do not see them."""
    last = host.rstrip(".").rpartition(".")[2]
    return re.fullmatch(r"[0-9]+|0[xX][0-9a-fA-F]*", last) is not None
