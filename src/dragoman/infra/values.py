"""Kinds of values that settings have; each says in its complaint what was expected."""

import json
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _origin(value: str) -> str:
    if not re.fullmatch(r"https?://[^/\s*]+", value):
        raise ValueError(f"{value!r} is not an origin such as https://app.example")
    return value


def _from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None


def _readable(path: Path) -> Path:
    path = path.expanduser()
    try:
        path.open("rb").close()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    return path


def _directory(path: Path) -> Path:
    path = path.expanduser()
    if not path.is_dir():
        raise ValueError(f"{path} is not a directory")
    return path


def _url(*schemes: str) -> AfterValidator:
    def check(value: SecretStr | str) -> SecretStr | str:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        scheme, separator, rest = text.partition("://")
        if scheme not in schemes or not separator or not rest:
            raise ValueError(f"must begin with {' or '.join(f'{name}://' for name in schemes)}")
        return value

    return AfterValidator(check)


def _outbound(value: list[str]) -> list[str]:
    from dragoman.infra.outbound import Allowed  # noqa: PLC0415 - a command line that reads settings needs no HTTP

    Allowed.of(value)
    return value


HomePath = Annotated[Path, AfterValidator(Path.expanduser)]
ReadableFile = Annotated[Path, AfterValidator(_readable)]
Directory = Annotated[Path, AfterValidator(_directory)]
PostgresUrl = Annotated[SecretStr, _url("postgresql", "postgres")]
RedisUrl = Annotated[SecretStr, _url("redis", "rediss", "unix")]
HttpUrl = Annotated[str, _url("http", "https")]
Origins = Annotated[list[Annotated[str, AfterValidator(_origin)]], BeforeValidator(_split)]
Words = Annotated[list[str], BeforeValidator(_split)]
OutboundHosts = Annotated[list[str], BeforeValidator(_split), AfterValidator(_outbound)]
CountByName = Annotated[dict[str, Annotated[int, Field(ge=1)]], BeforeValidator(_from_json)]
