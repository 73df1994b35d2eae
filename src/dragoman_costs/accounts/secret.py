"""What a credential says, once it is opened: an access key for a bucket, or what opens a file by https."""

import re
from dataclasses import dataclass, field
from typing import Final

import orjson

from dragoman_costs.accounts.sigv4 import AwsKey

_AWS: Final = frozenset(("access_key_id", "secret_access_key", "session_token"))
_HEADER: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_QUERY: Final = re.compile(r"[A-Za-z0-9%&=._~!$'()*+,;:@/?-]{1,8192}")


class SecretUnreadable(Exception):
    """A credential has another form than its address needs; the message holds nothing of it."""


@dataclass(frozen=True, slots=True)
class WebSecret:
    """What opens a file by https: a bearer token, or the query of a signed address."""

    bearer_token: str | None = field(default=None, repr=False)
    query: str | None = field(default=None, repr=False)


def read_aws_key(text: str) -> AwsKey:
    """Return the access key that a credential is.

    Raises:
        SecretUnreadable: it is none.
    """
    fields = _read_fields(text)
    if not {"access_key_id", "secret_access_key"} <= fields.keys() <= _AWS:
        raise SecretUnreadable(
            'for s3:// the credential must be JSON such as {"access_key_id": "...", "secret_access_key": "..."}, with '
            "session_token for temporary keys"
        )
    _check_sendable(fields)
    return AwsKey(**fields)


def read_web_secret(text: str) -> WebSecret:
    """Return what opens a file by https; text that is no JSON object is a bearer token.

    Raises:
        SecretUnreadable: it is another kind of credential.
    """
    fields = _read_fields(text) if text.lstrip().startswith("{") else {"bearer_token": text.strip()}
    if fields.keys() not in ({"bearer_token"}, {"query"}):
        raise SecretUnreadable('for https:// the credential must be {"bearer_token": "..."} or {"query": "..."}')
    _check_sendable(fields)
    if "query" in fields:
        query = fields["query"].removeprefix("?")
        if not _QUERY.fullmatch(query):
            raise SecretUnreadable("query must be the query string of an address, percent-encoded")
        return WebSecret(query=query)
    return WebSecret(**fields)


def _read_fields(text: str) -> dict[str, str]:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise SecretUnreadable("the credential must be a JSON object")
    # Credentials files of AWS and of its tools write the same names in capitals.
    named = {str(name).lower().removeprefix("aws_"): value for name, value in fields.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not all(isinstance(value, str) for value in named.values()):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise SecretUnreadable("each field of the credential must be a string")
    return named  # pyright: ignore[reportUnknownVariableType]


def _check_sendable(fields: dict[str, str]) -> None:
    for name, value in fields.items():
        if not _HEADER.fullmatch(value):
            raise SecretUnreadable(f"{name} must be printable ASCII without blanks")
