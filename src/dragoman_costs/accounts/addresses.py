"""The addresses at which billing exports lie: one file by https, or a prefix of a bucket."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix of a bucket; an empty one is all of it."""

    name: str
    prefix: str


def check_export_url(url: str) -> str:
    """Return an address of exports as it was given.

    Raises:
        ValueError: it is of another kind, or holds a secret.
    """
    if url.startswith("s3://"):
        read_bucket(url)
        return url
    _check_web(url, "must begin with https:// or s3://")
    return url


def check_endpoint(url: str) -> str:
    """Return the address of a store without a slash at the end.

    Raises:
        ValueError: it is not the address of a host.
    """
    _check_web(url, "must begin with https://")
    if urlsplit(url).path.strip("/"):
        raise ValueError("must end after the host: the bucket stands in export_url")
    return url.rstrip("/")


def read_bucket(url: str) -> Bucket:
    """Return the bucket of an address `s3://bucket/prefix`.

    Raises:
        ValueError: it does not name one.
    """
    name, _, prefix = url.removeprefix("s3://").partition("/")
    if not _BUCKET.fullmatch(name) or ".." in name:
        raise ValueError("must name a bucket and a prefix, such as s3://acme-billing/focus/")
    if not prefix.isprintable() or len(prefix) > 1024:
        raise ValueError("a prefix has at most 1024 printable characters")
    return Bucket(name, prefix)


def _check_web(url: str, scheme: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("must be an address, such as https://exports.example.com/focus.csv.gz") from None
    # Plain http is refused by the guard where the operator has not allowed the host by name.
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(scheme)
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password: give them as the credential")
    if parts.query or parts.fragment:
        raise ValueError('must not have a query, which may be a secret: give it as the credential {"query": ...}')
