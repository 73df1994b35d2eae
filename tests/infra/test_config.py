from pathlib import Path

import pytest
import trustme

from dragoman.infra.config import ConfigError, load_settings, unknown_variables


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "dragoman.toml"


def test_everything_has_a_default() -> None:
    settings = load_settings({})

    assert (settings.host, settings.port, settings.limits.ip_per_min) == ("127.0.0.1", 8080, 100)
    assert not settings.external_issuer


@pytest.mark.req("A2A-RT-2")
def test_address_port_and_authentication_come_from_the_environment() -> None:
    settings = load_settings(
        {
            "DRAGOMAN_HOST": "127.0.0.2",
            "DRAGOMAN_PORT": "9000",
            "DRAGOMAN_JWKS_URL": "https://id.example/keys",
            "DRAGOMAN_ISSUER": "https://id.example",
            "DRAGOMAN_AUDIENCE": "agents",
        }
    )

    assert (settings.host, settings.port, settings.audience) == ("127.0.0.2", 9000, "agents")
    assert settings.external_issuer


@pytest.mark.req("A2A-RT-2")
def test_a_file_with_tables_is_read_and_the_environment_wins_value_by_value(toml: Path) -> None:
    toml.write_text(
        'port = 9000\nhost = "127.0.0.2"\ncors_origins = ["https://a.example"]\n'
        "[limits]\nip_per_min = 5\nuser_per_min = 6\nskill_per_min = { memory = 7 }\n"
    )

    settings = load_settings(
        {"DRAGOMAN_CONFIG": str(toml), "DRAGOMAN_PORT": "9001", "DRAGOMAN_LIMITS__USER_PER_MIN": "60"}
    )

    assert (settings.port, settings.host, settings.cors_origins) == (9001, "127.0.0.2", ["https://a.example"])
    assert (settings.limits.ip_per_min, settings.limits.user_per_min) == (5, 60)
    assert settings.limits.skill_per_min == {"memory": 7}


def test_the_other_variables_of_the_process_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_PORT", "9000")

    assert load_settings({}).port == 8080


def test_an_empty_variable_is_an_unset_one() -> None:
    assert load_settings({"DRAGOMAN_PORT": "", "DRAGOMAN_DATABASE_URL": ""}).port == 8080


def test_lists_are_split_at_commas_and_tables_are_json() -> None:
    settings = load_settings(
        {
            "DRAGOMAN_CORS_ORIGINS": "https://a.example, http://localhost:3000",
            "DRAGOMAN_LIMITS__SKILL_PER_MIN": '{"memory": 600}',
        }
    )

    assert settings.cors_origins == ["https://a.example", "http://localhost:3000"]
    assert settings.limits.skill_per_min == {"memory": 600}


WRONG = {
    "not a number": {"DRAGOMAN_PORT": "http"},
    "out of range": {"DRAGOMAN_PORT": "70000"},
    "too small": {"DRAGOMAN_LIMITS__IP_PER_MIN": "0"},
    "not a truth value": {"DRAGOMAN_BEHIND_TLS_PROXY": "perhaps"},
    "not one of a few": {"DRAGOMAN_LOG_LEVEL": "loud"},
    "not JSON": {"DRAGOMAN_LIMITS__SKILL_PER_MIN": "{memory: 600}"},
    "JSON of another shape": {"DRAGOMAN_LIMITS__SKILL_PER_MIN": "[1]"},
    "a wrong number within": {"DRAGOMAN_LIMITS__SKILL_PER_MIN": '{"memory": 0}'},
    "not a PostgreSQL URL": {"DRAGOMAN_DATABASE_URL": "mysql://root:hush@db"},
    "not a Redis URL": {"DRAGOMAN_REDIS_URL": "cache:6379"},
    "not a web URL": {"DRAGOMAN_JWKS_URL": "id.example"},
    "keys without an issuer": {"DRAGOMAN_JWKS_URL": "https://id.example/keys"},
    "an issuer without keys": {"DRAGOMAN_ISSUER": "us"},
    "not a model": {"DRAGOMAN_LLM": "gpt"},
    "any origin": {"DRAGOMAN_CORS_ORIGINS": "*"},
    "an origin with a path": {"DRAGOMAN_CORS_ORIGINS": "https://a.example/x"},
    "no such file": {"DRAGOMAN_TLS_CERT": "/nowhere/cert.pem", "DRAGOMAN_TLS_KEY": "/dev/null"},
    "no such directory": {"DRAGOMAN_POLICY_DIR": "/nowhere"},
    "half of TLS": {"DRAGOMAN_TLS_CERT": "/dev/null"},
    "clients' CA without TLS": {"DRAGOMAN_TLS_CLIENT_CA": "/dev/null"},
    "plain HTTP to others": {"DRAGOMAN_HOST": "0.0.0.0"},
    "no such configuration": {"DRAGOMAN_CONFIG": "/nowhere/dragoman.toml"},
}


@pytest.mark.parametrize("environ", WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_an_error_that_names_its_variable(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(environ)

    assert next(iter(environ)) in str(caught.value)
    assert "hush" not in str(caught.value)


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({"DRAGOMAN_PORT": "x", "DRAGOMAN_WORKERS": "0", "DRAGOMAN_LIMITS__IP_PER_MIN": "-1"})

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "DRAGOMAN_PORT",
        "DRAGOMAN_WORKERS",
        "DRAGOMAN_LIMITS__IP_PER_MIN",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("port = = 1", "is not TOML"),
        ("prot = 1", "prot in {path} is not a setting; did you mean port?"),
        ("[limits]\nip_per_mn = 1", "limits.ip_per_mn in {path} is not a setting; did you mean limits.ip_per_min?"),
        ("[limits]\nip_per_min = 0", "limits.ip_per_min in {path} (DRAGOMAN_LIMITS__IP_PER_MIN): "),
        ("limits = 3", "limits in {path}: "),
        ("port = '\udcff'", "is not TOML"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_where(toml: Path, content: str, said: str) -> None:
    toml.write_text(content, errors="surrogateescape")

    with pytest.raises(ConfigError) as caught:
        load_settings({"DRAGOMAN_CONFIG": str(toml), "DRAGOMAN_LIMITS__USER_PER_MIN": "5"})

    assert said.format(path=toml) in str(caught.value)


def test_a_directory_is_not_a_configuration_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="DRAGOMAN_CONFIG: cannot read"):
        load_settings({"DRAGOMAN_CONFIG": str(tmp_path)})


@pytest.mark.parametrize("request_timeout_s", [0.2, 1, 3, 10, 60])
def test_who_waits_for_a_task_is_answered_before_the_request_is_cut_off(request_timeout_s: float) -> None:
    settings = load_settings({"DRAGOMAN_REQUEST_TIMEOUT_S": str(request_timeout_s)})

    assert 0 < settings.longest_wait_s <= 0.9 * request_timeout_s


def test_tls_opens_the_server_to_others(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("dragoman.example")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)

    settings = load_settings({"DRAGOMAN_HOST": "0.0.0.0", "DRAGOMAN_TLS_CERT": str(cert), "DRAGOMAN_TLS_KEY": str(key)})

    assert settings.tls_cert == cert


def test_an_unknown_variable_is_named_with_the_nearest_one() -> None:
    found = unknown_variables({"DRAGOMAN_PROT": "1", "DRAGOMAN_TOKEN": "x", "DRAGOMAN_PORT": "1", "HOME": "/"})

    assert found == ["DRAGOMAN_PROT is not a setting; did you mean DRAGOMAN_PORT?"]
