"""AWS Signature Version 4, for requests without a body.

https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import quote, urlsplit

EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_UNRESERVED: Final = "-._~"


@dataclass(frozen=True, slots=True)
class AwsKey:
    """An access key; one that is temporary has a session token."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs requests to one service in one region."""

    key: AwsKey
    region: str
    service: str = "s3"

    def sign(
        self, method: str, url: str, headers: Mapping[str, str], *, now: datetime, payload_sha256: str = EMPTY_SHA256
    ) -> dict[str, str]:
        """Return the headers to send: those that were given, which are all signed, and those of the signature.

        `url` is sent as it stands: its path and its query are encoded by `encode_path` and `encode_query`.
        """
        parts = urlsplit(url)
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        sent = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        sent |= {"host": parts.netloc, "x-amz-date": stamp}
        if self.service == "s3":
            sent["x-amz-content-sha256"] = payload_sha256
        if self.key.session_token is not None:
            sent["x-amz-security-token"] = self.key.session_token
        names = ";".join(sorted(sent))
        request = "\n".join(
            (
                method,
                parts.path or "/",
                parts.query,
                *(f"{name}:{sent[name]}" for name in sorted(sent)),
                "",
                names,
                payload_sha256,
            )
        )
        scope = f"{stamp[:8]}/{self.region}/{self.service}/aws4_request"
        text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
        signature = hmac.new(self._signing_key(stamp[:8]), text.encode(), hashlib.sha256).hexdigest()
        credential = f"{self.key.access_key_id}/{scope}"
        sent["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
        return sent

    def _signing_key(self, day: str) -> bytes:
        key = f"AWS4{self.key.secret_access_key}".encode()
        for part in (day, self.region, self.service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def encode_path(path: str) -> str:
    """Return a path, each byte encoded that is not unreserved; slashes stay."""
    return quote(path, safe=f"/{_UNRESERVED}")


def encode_query(values: Mapping[str, str]) -> str:
    """Return a query in the order in which it is signed."""
    pairs = [(quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in values.items()]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))
