import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.services.knowledge.errors import RemoteProblem
from dragoman.services.knowledge.remotes import FetchFailed, fetch
from dragoman.services.knowledge.repository import Repository
from dragoman.services.knowledge.routes import Route


def test_many_who_need_a_repository_first_make_one_and_all_find_it(tmp_path: Path) -> None:
    """A client that lists and listens at once is enough for two to come first."""
    paths = [tmp_path / f"{number}.git" for number in range(20) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        heads = list(pool.map(lambda path: Repository.open(path).find_head(), paths))

    assert heads == [None] * len(paths)
    assert sorted(left.name for left in tmp_path.iterdir()) == sorted({path.name for path in paths})


def test_a_remote_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """It accepts a connection and never answers; libgit2 alone would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        remote = f"https://git.example.com:{port}/knowledge.git"
        with pytest.raises(FetchFailed) as failed:
            fetch(
                Repository.open(tmp_path / "r.git"),
                Route(remote, "https", "git.example.com", port, addresses=("127.0.0.1",)),
                "main",
                most_bytes=1_000_000,
                tell=lambda *_: None,
                silence_s=0.2,
            )

    assert failed.value.problem is RemoteProblem.UNREACHABLE
