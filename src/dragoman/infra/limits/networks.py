"""As whom strangers at an address are counted."""

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Final

# The least that a provider gives a customer: counting single addresses of it would count nobody.
_PREFIX: Final = 64


@lru_cache(maxsize=4_096)
def network_of(address: str) -> str:
    """Return an IPv4 address as it is, also where it is mapped into IPv6, and of any other IPv6 address its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), _PREFIX), strict=False))
