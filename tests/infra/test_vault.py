import pytest

from dragoman.infra.auth.vault import Vault

VAULT = Vault(b"k" * 32)


def test_a_secret_opens_where_it_was_sealed_for_and_looks_different_each_time() -> None:
    sealed = [VAULT.seal(b"secret", place="a/b") for _ in range(2)]

    assert [VAULT.open(one, place="a/b") for one in sealed] == [b"secret", b"secret"]
    assert sealed[0] != sealed[1]
    assert b"secret" not in sealed[0]


def test_a_secret_opens_nowhere_else_and_not_when_it_was_changed() -> None:
    sealed = VAULT.seal(b"secret", place="a/b")

    for vault, given, place in (
        (VAULT, sealed, "a/c"),
        (Vault(b"x" * 32), sealed, "a/b"),
        (VAULT, sealed[:-1] + bytes([sealed[-1] ^ 1]), "a/b"),
        (VAULT, b"", "a/b"),
    ):
        with pytest.raises(ValueError, match="cannot be opened"):
            vault.open(given, place=place)
