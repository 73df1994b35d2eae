"""What is said of rows, in memory and in a temporary file: both must come to the same verdict."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.infra.ids import new_id
from dragoman.services.audit.bundle import verifier_source
from dragoman.services.audit.promises import Disagreement, Promises

IDS = [str(new_id()) for _ in range(6)]
NAMES = [f"tasks/{one}" for one in IDS[2:]] + [f"effects/{IDS[2]}/send/a", f"effects/{IDS[3]}/send/b"]
columns = st.dictionaries(st.sampled_from(["state", "owner"]), st.sampled_from(["a", "b", None]), min_size=1)
statements = st.lists(st.tuples(st.sampled_from(NAMES), st.one_of(st.none(), columns)), max_size=20)


Row = Mapping[str, str | None]


def verdict(said: Sequence[tuple[str, Row | None]], found: Mapping[str, Row], **how: int) -> tuple[list[str], int]:
    """What is named, and how much."""
    promises = Promises({"tasks": 2}, **how)
    promises.take(1, {"v": 3, "id": IDS[0]})
    for seq, (name, row) in enumerate(said, 2):
        promises.take(seq, {"v": 3, "id": str(new_id()), "rows": {name: row}})
    for name, row in found.items():
        promises.compare({name: dict(row)})
    promises.finish()
    return sorted(map(str, promises.disagreements)), promises.broken


@settings(deadline=None)
@given(said=statements, found=st.dictionaries(st.sampled_from(NAMES), columns))
def test_a_long_chain_is_judged_like_a_short_one(said: list[tuple[str, Row | None]], found: dict[str, Row]) -> None:
    assert verdict(said, found, in_memory=0) == verdict(said, found, in_memory=2) == verdict(said, found)


def test_a_row_that_was_removed_with_its_parent_is_not_missed() -> None:
    task = f"tasks/{IDS[2]}"
    said = [(task, {"state": "a"}), (f"effects/{IDS[2]}/send/a", {"outcome": "x"}), (task, None)]

    assert verdict(said, {}) == ([], 0)


def test_a_row_that_was_removed_and_is_there_is_named() -> None:
    task = f"tasks/{IDS[2]}"

    found, broken = verdict([(task, {"state": "a"}), (task, None)], {task: {"state": "a"}})

    assert (found, broken) == ([f"tasks {IDS[2]}: this row was removed, and is there (link 3)"], 1)


def test_where_ids_and_links_contradict_each_other_either_order_may_hold_and_nothing_else() -> None:
    """Of two that waited for each other the younger record is the last; of servers with two clocks the later link."""

    def named(state: str) -> list[Disagreement]:
        promises, first, second = Promises(), str(new_id()), str(new_id())
        name = f"tasks/{IDS[2]}"
        promises.take(1, {"v": 3, "id": second, "rows": {name: {"state": "b"}}})
        promises.take(2, {"v": 3, "id": first, "rows": {name: {"state": "a", "owner": "o"}}})
        promises.compare({name: {"state": state, "owner": "o"}})
        return promises.disagreements

    assert named("a") == named("b") == []
    assert named("c") == [Disagreement("tasks", IDS[2], "state", "b or a", "c", 1)]


def test_rows_that_are_older_than_the_first_record_of_the_version_that_states_them_are_left_alone() -> None:
    promises = Promises({"tasks": 4})
    promises.take(1, {"v": 3, "id": IDS[0]})
    promises.take(2, {"v": 4, "id": IDS[2]})

    promises.compare({f"tasks/{one}": {"state": "a"} for one in (IDS[1], str(UUID(int=2**127)))})

    assert [one.key for one in promises.disagreements] == [str(UUID(int=2**127))]


@pytest.mark.parametrize("module", ["ed25519", "chain", "promises", "export_file", "timelines", "verifier"])
def test_the_standalone_verifier_holds_each_module_and_imports_nothing_of_ours(module: str) -> None:
    source = verifier_source()

    assert f" {module} " in source
    assert "dragoman.services" not in "".join(line for line in source.splitlines() if "import" in line)
