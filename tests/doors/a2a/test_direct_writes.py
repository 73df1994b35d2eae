"""A tool that writes shares a transaction with those that come at the same moment; each has its own key and record."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.backstage import locked, sql
from tests.doors.a2a.calling import A2A, error_of, state, tool
from tests.doors.a2a.test_direct_reads import tasks_of
from tests.harness import Server, wait_for

RECORDS = "SELECT xid::text AS xid FROM audit_records WHERE operation = 'memory.add' AND outcome = 'done'"
KEYS = "SELECT output::text AS output FROM idempotency_keys WHERE key = $1"
MEMORIES = "SELECT content, tags FROM memories WHERE content LIKE $1 || '%' ORDER BY content"


def add(content: str, **more: Any) -> dict[str, Any]:
    """A message that remembers something, in a conversation of the same name."""
    return tool("memory_add", {"content": content, **more}, contextId=content)


def test_writes_that_come_together_share_a_transaction_and_have_a_key_and_a_record_each(served: Server) -> None:
    wanted, before = [f"together {n}" for n in range(8)], len(sql(served, RECORDS))
    with ThreadPoolExecutor(8) as pool:
        with locked(served, "memories"):
            sending = [pool.submit(A2A(served).send, add(content)) for content in wanted]
            wait_for(lambda: all(tasks_of(A2A(served), content) for content in wanted), "all of them to wait")
        tasks = [one.result(60) for one in sending]

    assert {state(task) for task in tasks} == {"COMPLETED"}
    assert [row["content"] for row in sql(served, MEMORIES, "together")] == wanted
    assert all(len(sql(served, KEYS, f"task:{task['id']}")) == 1 for task in tasks)
    transactions = Counter(row["xid"] for row in sql(served, RECORDS)[before:])
    assert sum(transactions.values()) == 8
    assert len(transactions) < 8


def test_the_same_words_at_the_same_moment_are_one_memory_with_the_tags_of_all(served: Server) -> None:
    with ThreadPoolExecutor(4) as pool:
        with locked(served, "memories"):
            sending = [pool.submit(A2A(served).send, add("same words", tags=[f"t{n}"])) for n in range(4)]
            wait_for(lambda: len(tasks_of(A2A(served), "same words")) == 4, "all of them to wait")
        outputs = [one.result(60)["artifacts"][0]["parts"][0]["data"] for one in sending]

    assert [row["tags"] for row in sql(served, MEMORIES, "same words")] == [["t0", "t1", "t2", "t3"]]
    assert len({output["memory_id"] for output in outputs}) == 1
    assert sorted(output["deduplicated"] for output in outputs) == [False, True, True, True]


def test_a_write_that_is_cancelled_while_it_waits_is_not_written_and_the_others_are(served: Server) -> None:
    with ThreadPoolExecutor(3) as pool:
        with locked(served, "memories"):
            sending = [pool.submit(A2A(served).send, add(f"waiting {n}")) for n in range(3)]
            wait_for(lambda: all(tasks_of(A2A(served), f"waiting {n}") for n in range(3)), "all of them to wait")
            A2A(served).call("CancelTask", {"id": tasks_of(A2A(served), "waiting 1")[0]["id"]})
        tasks = [one.result(60) for one in sending]

    assert [state(task) for task in tasks] == ["COMPLETED", "CANCELED", "COMPLETED"]
    assert [row["content"] for row in sql(served, MEMORIES, "waiting")] == ["waiting 0", "waiting 2"]


def test_a_write_that_breaks_a_rule_fails_alone_and_is_on_record(served: Server, a2a: A2A) -> None:
    failed = "SELECT outcome FROM audit_records WHERE operation = 'memory.add' AND outcome = 'failed'"
    before = len(sql(served, failed))

    task = a2a.send(add("out of place", turn=1))

    assert error_of(task)["code"] == "INVALID_PARAMS"
    assert len(sql(served, failed)) == before + 1
    assert sql(served, MEMORIES, "out of place") == []
