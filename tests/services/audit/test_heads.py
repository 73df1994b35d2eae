from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from dragoman.services.audit.chain import Head
from dragoman.services.audit.heads import HeadsFile
from tests.infra.log_lines import captured

ACME, RIVAL = UUID(int=1), UUID(int=2)


def head(tenant: UUID, seq: int, hash_of: str = "") -> Head:
    return Head(tenant, seq, (hash_of or str(seq)).encode().ljust(32), "now", "key", b"signature")


def test_heads_are_given_back_to_their_tenant(tmp_path: Path) -> None:
    heads = HeadsFile(tmp_path / "audit" / "heads.jsonl")

    heads.append([head(ACME, 1), head(RIVAL, 5)])
    heads.append([head(ACME, 2)])

    assert heads.list(ACME) == [head(ACME, 1), head(ACME, 2)]


def test_a_file_that_has_grown_keeps_the_newest_head_of_every_tenant(tmp_path: Path) -> None:
    """A tenant that wrote once, long ago, must not lose the only proof of it to the noise of the others."""
    heads = HeadsFile(tmp_path / "heads.jsonl", compact_bytes=2_000)
    heads.append([head(RIVAL, 1)])

    for seq in range(1, 101):
        heads.append([head(ACME, seq)])

    assert heads.list(RIVAL) == [head(RIVAL, 1)]
    assert heads.list(ACME)[-1] == head(ACME, 100)
    assert (tmp_path / "heads.jsonl").stat().st_size < 3_000


def test_heads_that_tell_of_two_chains_are_both_kept(tmp_path: Path) -> None:
    heads = HeadsFile(tmp_path / "heads.jsonl", compact_bytes=2_000)
    heads.append([head(ACME, 9, "true"), head(ACME, 4, "forked")])

    for seq in range(10, 101):
        heads.append([head(ACME, seq)])

    assert {head(ACME, 9, "true"), head(ACME, 4, "forked"), head(ACME, 100)} <= set(heads.list(ACME))


def test_completing_adds_what_is_missing_and_tells_what_the_database_has_lost(tmp_path: Path) -> None:
    heads = HeadsFile(tmp_path / "heads.jsonl")
    heads.append([head(RIVAL, 5)])

    lost = heads.complete([head(ACME, 3), head(RIVAL, 4)])

    assert heads.list(ACME) == [head(ACME, 3)]
    assert lost == [head(RIVAL, 5)]
    assert heads.complete([head(ACME, 3), head(RIVAL, 5)]) == []
    assert len(heads.list(ACME)) == 1


def test_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    heads = HeadsFile(tmp_path / "heads.jsonl")
    heads.append([head(ACME, 1)])
    with (tmp_path / "heads.jsonl").open("ab") as file:
        file.write(f'{{"tenant":"{ACME}","se\n'.encode())
    heads.append([head(ACME, 2)])

    with captured("audit.head_unreadable") as logs:
        assert heads.list(ACME) == [head(ACME, 1), head(ACME, 2)]
    assert [line["event"] for line in logs] == ["audit.head_unreadable"]


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: HeadsFile(path, compact_bytes=4_000).append([head(UUID(int=n), 1)]), range(200)))

    assert [len(HeadsFile(path).list(UUID(int=n))) for n in range(200)] == [1] * 200
