from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dragoman.services.knowledge.repository import Repository


def test_many_who_need_a_repository_first_make_one_and_all_find_it(tmp_path: Path) -> None:
    """A client that lists and listens at once is enough for two to come first."""
    paths = [tmp_path / f"{number}.git" for number in range(20) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        heads = list(pool.map(lambda path: Repository.open(path).find_head(), paths))

    assert heads == [None] * len(paths)
    assert sorted(left.name for left in tmp_path.iterdir()) == sorted({path.name for path in paths})
