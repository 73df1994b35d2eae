import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from dragoman.services.knowledge.errors import RemoteUnavailable
from dragoman.services.knowledge.remotes import fetch
from dragoman.services.knowledge.repository import Repository


def test_many_who_need_a_repository_first_make_one_and_all_find_it(tmp_path: Path) -> None:
    """A client that lists and listens at once is enough for two to come first."""
    paths = [tmp_path / f"{number}.git" for number in range(20) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        heads = list(pool.map(lambda path: Repository.open(path).find_head(), paths))

    assert heads == [None] * len(paths)
    assert sorted(left.name for left in tmp_path.iterdir()) == sorted({path.name for path in paths})


def test_a_remote_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    """It accepts a connection and never answers; libgit2 alone would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RemoteUnavailable):
        fetch(
            Repository.open(tmp_path / "r.git"),
            f"http://127.0.0.1:{silent.getsockname()[1]}/knowledge.git",
            "main",
            most_bytes=1_000_000,
            stopped=Event(),
            tell=lambda *_: None,
            silence_s=0.2,
        )
