"""The certificate that a client showed: in TLS of our own, or to the proxy that terminates TLS for us."""

import base64
import binascii
import re
import ssl
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final
from urllib.parse import unquote

# Envoy's and Istio's `X-Forwarded-Client-Cert` names each value; others give the certificate alone.
_NAMED: Final = re.compile(r'(?:^|[;,])Cert="([^"]+)"', re.IGNORECASE)


class ClientCertificates:
    """Finds the certificate of a client; a header is believed from trusted proxies alone."""

    def __init__(self, *, header: str | None, proxies: str) -> None:
        self._header = header.lower().encode() if header else None
        self._everyone = "*" in proxies
        self._networks = [
            ip_network(one.strip(), strict=False) for one in proxies.split(",") if one.strip() not in ("", "*")
        ]

    def find(self, scope: Mapping[str, Any], headers: Mapping[bytes, str]) -> str | None:
        """Return the certificate in PEM, or None when none was shown.

        Behind a proxy it is what the proxy says: percent-encoded PEM (nginx, Envoy), or base64 of DER (Caddy, and
        RFC 9440 with a colon on either side).
        """
        extensions: dict[str, Any] = scope.get("extensions") or {}
        if self._header is None:
            chain = extensions.get("tls", {}).get("client_cert_chain", ())
            return chain[0] if chain else None
        said = headers.get(self._header)
        if not said or not self._trusts(extensions.get("peer")):
            return None
        # Two of them: one is what the client sent, and nothing says which.
        if sum(name == self._header for name, _ in scope.get("headers", ())) > 1:
            return None
        named = _NAMED.findall(said)
        if len(named) > 1:
            return None
        return _read(named[0] if named else said)

    def _trusts(self, peer: Any) -> bool:
        if self._everyone:
            return True
        try:
            address = ip_address(peer[0])
        except (ValueError, TypeError, IndexError):
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            # A socket for both versions shows an address of version 4 like this.
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


def _read(value: str) -> str:
    if "BEGIN" in value:
        return unquote(value)
    try:
        return ssl.DER_cert_to_PEM_cert(base64.b64decode(value.strip(": "), validate=True))
    except (ValueError, binascii.Error):
        return value
