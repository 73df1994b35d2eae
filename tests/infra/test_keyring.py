"""Keys on disk: made once, the same for all, and a clear word when they cannot be used."""

import multiprocessing
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dragoman.infra.auth.keyring import Keyring, KeyringError
from tests.harness import DRAGOMAN, Server
from tests.patience import PATIENCE_S
from tests.tenants import beside

FILES = ("audit.mac", "audit.pem", "card.pem", "issuer.pem", "pepper", "signing.pem", "vault")


def fingerprints(directory: str) -> dict[str, str]:
    return Keyring.open(Path(directory)).fingerprints()


def test_keys_are_made_once_private_and_kept(tmp_path: Path) -> None:
    first = fingerprints(str(tmp_path / "keys"))

    assert fingerprints(str(tmp_path / "keys")) == first
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()}
    assert found == dict.fromkeys(FILES, 0o600)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def test_processes_that_make_the_keys_at_once_agree(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        answers = pool.map(fingerprints, [str(tmp_path / "keys")] * 16, chunksize=1)

    assert all(answer == answers[0] for answer in answers)
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == list(FILES)


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey, password: bytes | None = None) -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


@pytest.mark.parametrize("name", FILES)
def test_a_key_that_is_a_directory_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    with pytest.raises(KeyringError, match=str(tmp_path / name)):
        Keyring.open(tmp_path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"garbage"], ids=["empty", "garbage"])
def test_a_key_that_is_empty_or_cut_off_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    """An empty pepper would work, and protect nothing."""
    (tmp_path / name).write_bytes(content)

    with pytest.raises(KeyringError, match=str(tmp_path / name)):
        Keyring.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("issuer.pem", lambda: pem(ec.generate_private_key(ec.SECP384R1()))),
        ("issuer.pem", lambda: pem(ed25519.Ed25519PrivateKey.generate())),
        ("issuer.pem", lambda: pem(ec.generate_private_key(ec.SECP256R1()), b"password")),
        ("audit.pem", lambda: pem(ec.generate_private_key(ec.SECP256R1()))),
    ],
    ids=["another curve", "another kind", "locked", "another kind for audit"],
)
def test_a_key_of_another_kind_is_named(tmp_path: Path, name: str, make: Callable[[], bytes]) -> None:
    (tmp_path / name).write_bytes(make())

    with pytest.raises(KeyringError, match=str(tmp_path / name)):
        Keyring.open(tmp_path)


def test_a_path_that_is_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file")

    with pytest.raises(KeyringError, match=str(tmp_path / "keys")):
        Keyring.open(tmp_path / "keys")


def serve(server: Server, tmp_path: Path, secrets_dir: Path) -> subprocess.CompletedProcess[str]:
    environment = server.environment | beside(server)
    environment |= {"DRAGOMAN_SECRETS_DIR": str(secrets_dir), "DRAGOMAN_DATA_DIR": str(tmp_path / "data")}
    return subprocess.run(
        [DRAGOMAN, "serve"], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_database_does_not_take_other_keys_than_it_was_set_up_with(server: Server, tmp_path: Path) -> None:
    ended = serve(server, tmp_path, tmp_path / "other")

    assert ended.returncode != 0
    assert "DRAGOMAN_SECRETS_DIR" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", FILES)
def test_one_foreign_key_among_the_right_ones_is_enough_to_refuse(server: Server, tmp_path: Path, name: str) -> None:
    right, other = server.data_dir / "secrets", tmp_path / "mixed"
    Keyring.open(other)
    for file in FILES:
        if file != name:
            (other / file).write_bytes((right / file).read_bytes())

    ended = serve(server, tmp_path, other)

    assert ended.returncode != 0
    assert "DRAGOMAN_SECRETS_DIR" in ended.stderr


def test_a_server_names_the_key_that_it_cannot_use(server: Server, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "pepper").write_bytes(b"short")

    ended = serve(server, tmp_path, tmp_path / "keys")

    assert ended.returncode != 0
    assert str(tmp_path / "keys" / "pepper") in ended.stderr
    assert "Traceback" not in ended.stderr
