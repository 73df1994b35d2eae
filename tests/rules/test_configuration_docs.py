import re

from dragoman.infra.config import CLIENT_VARIABLES, describe_settings
from tests.rules.tree import text

ROW = re.compile(r"^\| `(DRAGOMAN_\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)

PROMISED = """
    HOST PORT DATA_DIR DATABASE_URL REDIS_URL JWKS_URL ISSUER AUDIENCE TLS_CERT TLS_KEY TLS_CLIENT_CA LLM LLM_BASE_URL
    LIMITS__IP_PER_MIN LIMITS__USER_PER_MIN LIMITS__TENANT_PER_MIN LIMITS__A2A_TENANT_PER_MIN LIMITS__AGENT_PER_MIN
    GRPC_PORT BEHIND_TLS_PROXY MAX_BODY_BYTES REQUEST_TIMEOUT_S CORS_ORIGINS THREADS__TTL_S THREADS__CONTEXT_TTL_S
    THREADS__MAX_BYTES THREADS__CLEANUP_S TASKS__MAX_ATTEMPTS
"""


def test_the_page_lists_every_variable_with_its_default_and_meaning_and_no_other() -> None:
    rows = ROW.findall(text("docs/configuration.md"))

    assert rows == [*describe_settings(), *((name, "unset", meaning) for name, meaning in CLIENT_VARIABLES.items())]


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, _, meaning in describe_settings() if not meaning.endswith(".")] == []


def test_the_contract_variables_are_settings() -> None:
    """The names that users may rely on for ever."""
    assert set(PROMISED.split()) <= {name.removeprefix("DRAGOMAN_") for name, _, _ in describe_settings()}
