"""A process is killed in the middle of deliveries: nothing is lost, and what comes twice has the same id."""

import signal
import threading
from pathlib import Path

from tests.backstage import sql
from tests.harness import Process
from tests.receiver import Receiver, Reply
from tests.services.subscriptions.subscribing import SOON, Tenant
from tests.services.tasks.conftest import with_workers
from tests.services.tasks.envelopes import ended


def test_what_a_killed_process_was_sending_is_sent_by_the_next(tmp_path: Path) -> None:
    leave = threading.Event()
    with Process(with_workers(tmp_path) | SOON) as server, Receiver(*[Reply(held=leave)] * 4) as receiver:
        tenant = Tenant(server)
        subscription = tenant.subscribe(receiver, "task.finished")
        tasks = {tenant.hand_over()["task_id"] for _ in range(8)}
        for task_id in tasks:
            ended(tenant.person(), task_id)
        first = receiver.next()

        server.stop(signal.SIGKILL)
        leave.set()
        tenant.close()
        # The leases of the process that is gone are over.
        sql(server, "UPDATE subscription_deliveries SET due_at = now() WHERE worker IS NOT NULL")
        server.start()

        again = Tenant(server, tenant.slug)
        told = [first]
        while {one.json["subject"] for one in told[1:]} != tasks:
            told.append(receiver.next())
        assert len({one.headers["webhook-id"] for one in told}) == len(tasks)
        assert first.headers["webhook-id"] in {one.headers["webhook-id"] for one in told[1:]}
        assert again.get(subscription)["state"] == "active"
        again.close()
