"""What PostgreSQL complains of, in our words: decided by the SQLSTATE, class by class."""

import asyncpg
import pytest

from dragoman.errors import InvalidInput, UpstreamUnavailable
from dragoman.infra.db.failures import PoolExhausted, UniqueViolated, refuses_user, translated


def refusal(state: str, message: str = "no") -> asyncpg.PostgresError:
    """An error as the driver makes it of what PostgreSQL says."""
    return asyncpg.PostgresError.new({"C": state, "M": message, "S": "FATAL"})


@pytest.mark.parametrize(
    "state",
    [
        "08006", "25006", "25P03", "25P04", "28000", "28P01", "3D000", "40001", "40P01", "53100", "53200", "53300",
        "55000", "55006", "55P03", "57014", "57P01", "57P03", "57P04", "57P05", "58030", "58P01", "F0000", "XX000",
        "XX001",
    ],
)  # fmt: skip
def test_a_database_that_cannot_serve_now_is_unavailable_and_says_when_to_come_back(state: str) -> None:
    error = translated(refusal(state))

    assert isinstance(error, UpstreamUnavailable)
    assert (error.code, error.retry_after_s) == ("UPSTREAM_UNAVAILABLE", 2)


def test_a_state_that_nobody_has_met_yet_is_judged_by_its_class() -> None:
    assert isinstance(translated(refusal("53ZZZ")), UpstreamUnavailable)
    assert isinstance(translated(refusal("57ZZZ")), UpstreamUnavailable)


@pytest.mark.parametrize("state", ["22012", "23502", "23503", "25P02", "34000", "42501", "42601", "42P01", "55P02"])
def test_a_wrong_statement_of_ours_is_not_put_down_to_the_database(state: str) -> None:
    assert type(translated(refusal(state))) is RuntimeError


def test_a_file_system_that_went_read_only_is_told_from_a_missing_privilege() -> None:
    read_only = refusal("42501", 'could not open file "base/5/1259": Read-only file system')

    assert isinstance(translated(read_only), UpstreamUnavailable)
    assert type(translated(refusal("42501", "permission denied for table tenants"))) is RuntimeError


@pytest.mark.parametrize("error", [OSError(), TimeoutError(), asyncpg.InternalClientError("lost its place"),
                                   asyncpg.InterfaceError("connection is closed")])  # fmt: skip
def test_a_connection_that_is_gone_is_unavailable(error: Exception) -> None:
    assert isinstance(translated(error), UpstreamUnavailable)


def test_two_statements_at_once_are_a_mistake_of_ours() -> None:
    error = translated(asyncpg.InterfaceError("another operation is in progress"))

    assert type(error) is RuntimeError


@pytest.mark.parametrize("state", ["22003", "22008", "22021", "22P05"])
def test_a_value_that_cannot_be_stored_is_the_callers(state: str) -> None:
    assert isinstance(translated(refusal(state)), InvalidInput)


def test_a_key_that_is_taken_names_its_rule() -> None:
    error = translated(asyncpg.PostgresError.new({"C": "23505", "M": "taken", "S": "ERROR", "n": "tenants_slug_key"}))

    assert isinstance(error, UniqueViolated)
    assert error.constraint == "tenants_slug_key"


def test_only_an_answer_can_refuse_a_user() -> None:
    assert refuses_user(refusal("28P01"))
    assert refuses_user(refusal("42501"))
    assert not refuses_user(refusal("57P03"))
    assert not refuses_user(OSError())
    assert not refuses_user(None)


def test_a_full_pool_names_itself_and_not_postgresql() -> None:
    error = PoolExhausted(size=20, waited_s=5.0)

    assert (error.code, error.retry_after_s, error.details) == (
        "UPSTREAM_UNAVAILABLE", 2, {"upstream": "database pool"},
    )  # fmt: skip
    assert "20 connections" in error.message
    assert "postgresql" not in error.message
    assert str(error) == error.message
