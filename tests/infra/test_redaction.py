"""No token, key or credential survives in any line, at any depth, in either format."""

import logging
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any, get_args
from urllib.parse import quote

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import RequestContext, enter_request
from dragoman.infra.telemetry.logs import LogFormat, access_log, configure_logs
from dragoman.infra.telemetry.redaction import redact_text
from tests.infra.log_lines import Lines, restored_logging

FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
SECRET = st.text("0123456789abcdefABCDEF", min_size=16, max_size=40)
KEYS = st.sampled_from(
    [
        *("authorization", "Cookie", "set-cookie", "X-Api-Key", "password", "db_password", "secret", "client_secret"),
        *("token", "refreshToken", "api_key", "private_key", "PRIVATE-KEY", "passphrase", "aws_secret_access_key"),
    ]
)
SHAPES = st.sampled_from(
    [
        "Bearer {}",
        "authorization: bearer {}",
        "Basic {}",
        "eyJ{}.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl",
        "dgm_{}",
        "dgm_live_{}",
        "postgresql://user:{}@db/x",
        "redis://:{}@cache:6379/0",
        "https://{}@example.com/repo.git",
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\n{}",
        "password={}",
        "{{'api_key': '{}'}}",
        "{{'headers': {{'cookie': ['a', '{}']}}}}",
        '{{"client_secret": "{}"}}',
        '{{"body": "{{\\"token\\": \\"{}\\"}}"}}',
        "https://host/path?access_token={}&x=1",
    ]
)
PROSE = st.text(st.characters(codec="utf-8", exclude_characters="\\\"'"), max_size=12)


@pytest.fixture(autouse=True, scope="module")
def _own_logging() -> Iterator[None]:
    with restored_logging():
        yield


@st.composite
def buried(draw: st.DrawFn) -> tuple[str, Any]:
    """A secret, and a value that holds it somewhere: under a telling key, or in a telling shape."""
    secret = draw(SECRET)
    if draw(st.booleans()):
        value: Any = {draw(KEYS): draw(st.sampled_from([secret, [secret], {"inner": secret}, secret.encode()]))}
    else:
        value = f"{draw(PROSE)} {draw(SHAPES).format(secret)} {draw(PROSE)}"
    for wrapping in draw(st.lists(st.sampled_from(["list", "tuple", "dict", "key", "odd"]), max_size=6)):
        value = {
            "list": [1, value],
            "tuple": (value, None),
            "dict": {"harmless": value},
            "key": {str(value): 1},
            "odd": {"huge": 2**70, "lone": "\ud800", "value": value},
        }[wrapping]
    return secret, value


@pytest.mark.req("GW-404")
@pytest.mark.parametrize("form", FORMATS)
@given(case=buried())
def test_no_secret_survives_at_any_depth(form: LogFormat, case: tuple[str, Any]) -> None:
    secret, value = case
    kept = Lines()
    configure_logs(format=form, level="info", security_log=None, stream=kept.stream)

    structlog.get_logger().info("event", value=value)
    structlog.get_logger().info(f"event {value}")
    logging.getLogger("library").warning("%s", value)
    structlog.get_logger().error("failed", exc_info=ValueError(value))

    assert secret not in kept.text
    assert kept.text.count("[redacted]") >= 4


@pytest.mark.req("GW-404")
@given(SECRET, st.sampled_from(["path", "user_agent", "ip", "method", "id", "correlation_id"]))
def test_no_secret_survives_in_an_access_line(secret: str, field: str) -> None:
    kept = Lines()
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)
    said: dict[str, Any] = {"method": "GET", "path": "/x", "ip": "10.0.0.1", "user_agent": "curl"}
    request = RequestContext(id="r1", door="rest", correlation_id="c1")

    def serve() -> None:
        if field in said:
            said[field] = f"/x/dgm_{secret}"
        else:
            setattr(request, field, f"dgm_{secret}")
        enter_request(request)
        access_log(**said, route="/x", status=404, duration_s=0.1)

    copy_context().run(serve)

    assert secret not in kept.text


@given(st.text(st.sampled_from("abc:/@%p#"), min_size=1, max_size=20))
def test_a_password_in_an_address_may_hold_any_character(raw: str) -> None:
    secret = "S3" + quote(raw, safe="") + "S3"

    assert secret not in redact_text(f"dsn=postgresql://u:{secret}@h/db")


@pytest.mark.parametrize(
    "text",
    [
        "GET http://host:8080/users/ada@example.com",
        "ada@example.com signed in",
        "the token is required",
        "used input_tokens=120",
        "api_key_id=k1 token_type=Bearer",
    ],
)
def test_ordinary_words_are_left_alone(text: str) -> None:
    assert redact_text(text) == text


def test_a_hostile_text_costs_no_more_than_its_length() -> None:
    """The expressions do not backtrack: this would take minutes if they did."""
    hostile = "secret='" * 20_000 + "://a:" * 20_000 + "Bearer " * 20_000 + "-----BEGIN PRIVATE" * 5_000

    assert len(redact_text(hostile)) > 0


def test_counts_ids_and_flags_are_not_secrets() -> None:
    kept = Lines()
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)
    harmless = {"input_tokens": 120, "api_key_id": "k1", "token_present": True, "password": None, "key": "tea"}

    structlog.get_logger().info("x", fields=harmless)

    assert kept.only()["fields"] == harmless


def test_header_pairs_are_read_as_headers() -> None:
    kept = Lines()
    configure_logs(format="json", level="info", security_log=None, stream=kept.stream)

    structlog.get_logger().info("x", headers=[(b"host", b"a"), (b"x-api-key", b"abcdef")])

    assert kept.only()["headers"] == [["host", "a"], ["x-api-key", "[redacted]"]]
