"""A chaos run: an installation under load suffers the faults of a seed, comes to rest, and is judged."""

import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

from tests.chaos.activities import Activities
from tests.chaos.faults import Injector, Supervisor, draw
from tests.chaos.followers import Followers
from tests.chaos.imports import Importer
from tests.chaos.installation import Installation
from tests.chaos.parked import Parked
from tests.chaos.persistence import Book, Client, GaveUp
from tests.chaos.subscriber import BRIEF, Subscriber
from tests.chaos.verdict import Check, Verdict
from tests.chaos.webhooks import Sender, waiting

# Being killed again and again is no reason to give a task up.
_PATIENT = {
    "DRAGOMAN_TASKS__MAX_ATTEMPTS": "1000",
    "DRAGOMAN_REQUEST_TIMEOUT_S": "10",
    "DRAGOMAN_WEBHOOKS__RETRIES": "30",
    "DRAGOMAN_WEBHOOKS__RETRY_BASE_S": "0.1",
    # Some clocks are ahead.
    "DRAGOMAN_WEBHOOKS__TOLERANCE_S": "3600",
    **BRIEF,
}
_STANDSTILL_S = 6.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is made of. The seed chooses the faults; what the clients do meanwhile depends on time, too."""

    seed: int
    faults: int
    longest_s: float = 10.0
    gap_s: float = 2.0
    clients: int = 6
    pause_s: float = 0.15
    remote: bool = True
    disk_mb: int | None = 700
    # How many new tasks are acknowledged between two faults.
    tasks_between: int = 4
    settle_s: float = 180.0


@dataclass
class Outcome:
    """What a run showed."""

    checks: list[Check]
    figures: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def good(self) -> bool:
        """Check that no check found a violation."""
        return not any(check.violations for check in self.checks)

    def table(self) -> str:
        """The figures, then a line for each check, with its first violations below it."""
        lines = [f"{name}: {value}" for name, value in self.figures.items()]
        lines += ["", f"{'check':44} {'of':>7} {'wrong':>6}"]
        for check in self.checks:
            lines.append(f"{check.what:44} {check.of:7} {len(check.violations):6}")
            lines += [f"    {one[:400]}" for one in check.violations[:5]]
        return "\n".join(lines)


class Siege:
    """One run; everything that it starts ends with it."""

    def __init__(self, plan: Plan, say: Say, *, keep: Path | None = None) -> None:
        self._plan, self._say, self._keep = plan, say, keep
        self._stopping, self._giving_up = Event(), Event()
        self._book = Book()

    def run(self) -> Outcome:
        """Start the installation, inject every fault, wait for rest, and judge."""
        plan = self._plan
        site = Installation(_PATIENT, disk_mb=plan.disk_mb)
        site.add("s1", "serve", "--agent", "tests.chaos.agent:agent")
        site.add("s2", "serve", "--agent", "tests.chaos.agent:agent", *(("--workers", "2") if plan.remote else ()))
        site.add("w1", "worker")
        if plan.remote:
            site.add_partners()
        began = time.monotonic()
        with site, Subscriber(site, plan.seed) as subscriber:
            if plan.remote:
                site.start_partners()
            self._say(f"installation is up after {time.monotonic() - began:.0f} s; data in {site.place}")
            subscriber.subscribe()
            outcome = self._besiege(site, subscriber, began)
            if self._keep is not None and not outcome.good:
                self._keep_logs(site, self._keep)
            return outcome

    def _besiege(self, site: Installation, subscriber: Subscriber, began: float) -> Outcome:
        plan, book = self._plan, self._book
        followers = Followers(site, self._giving_up, plan.seed)
        activities = Activities(book, followers, Sender(site, book), Importer(site, book), remote=plan.remote)
        injector, supervisor = Injector(site), Supervisor(site)
        supervisor.start()
        with ThreadPoolExecutor(plan.clients, thread_name_prefix="client") as pool:
            try:
                clients = [pool.submit(self._live, site, activities, number) for number in range(plan.clients)]
                self._inject(site, injector)
                self._stopping.set()
                injector.finish()
                self._say(f"all faults are over after {time.monotonic() - began:.0f} s; waiting for rest")
                parked = self._settle(site, clients)
            finally:
                # Whatever happened: nobody waits for what nobody does any more.
                self._stopping.set()
                self._giving_up.set()
                supervisor.stop()
        followers.finish()
        subscriber.finish(within_s=plan.settle_s)
        verdict = Verdict(site, book, followers, injector.pauses)
        checks = [*verdict.checks(), parked.check(), subscriber.check()]
        checks.append(Check("faults that could not be injected", plan.faults, injector.troubles))
        figures = {
            "seed": plan.seed,
            "faults": dict(sorted(injector.injected.items())),
            "acknowledged tasks": len(book.taken),
            "acknowledged writes": len(book.writes),
            "acknowledged webhooks": len(book.webhooks),
            "acknowledged imports": sum(name in book.taken for name in book.imports),
            "answers that said not now": dict(book.refused),
            "asked a person": parked.asked,
            "messages to a subscriber": subscriber.requests,
            "streams cut": sum(one.cuts for one in followers.followed),
            "processes started": sum(len(node.started) for node in site.nodes.values()),
            "seconds": round(time.monotonic() - began),
        }
        return Outcome(checks, figures)

    def _keep_logs(self, site: Installation, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        journal = site.journal.place / "journal.jsonl"
        for file in (*site.place.glob("*.log"), *(site.place / "backends").glob("*.log"), journal):
            shutil.copy(file, into)
        self._say(f"logs are in {into}")

    def _inject(self, site: Installation, injector: Injector) -> None:
        plan = self._plan
        victims = [*site.nodes, *site.partners]
        disk = site.disk is not None
        faults = draw(plan.seed, plan.faults, victims, longest_s=plan.longest_s, gap_s=plan.gap_s, disk=disk)
        for number, fault in enumerate(faults, 1):
            self._await_tasks(plan.tasks_between)
            time.sleep(fault.after_s)
            injector.inject(fault)
            self._say(f"{number:4}/{plan.faults} {fault}; {len(self._book.taken)} tasks")

    def _await_tasks(self, number: int) -> None:
        """Wait until there is something new to lose, but not for ever: two faults may meet a standstill."""
        wanted, until = len(self._book.taken) + number, time.monotonic() + _STANDSTILL_S
        while len(self._book.taken) < wanted and time.monotonic() < until:
            time.sleep(0.05)

    def _live(self, site: Installation, activities: Activities, number: int) -> None:
        """One client: one activity after the other, until the faults are over and the last one is done."""
        chance = Random(f"{self._plan.seed}-{number}")
        client = Client(site, self._book, chance, self._giving_up)
        done = 0
        try:
            while not self._stopping.wait(self._plan.pause_s):
                done += 1
                name = f"c{number}-{done}"
                try:
                    activities.choose(client, name)
                except GaveUp as error:
                    if self._giving_up.is_set():
                        self._book.unanswered.append(f"{name}: {error}")
        finally:
            client.close()

    def _settle(self, site: Installation, clients: list[Future[None]]) -> Parked:
        """End every fault, let the clients finish, and answer what only a person can know."""
        deadline = time.monotonic() + self._plan.settle_s
        parked = Parked(site, self._book)
        site.heal()
        for node in (*site.nodes.values(), *site.partners.values()):
            node.launch_if_ended()
        while time.monotonic() < deadline:
            open_tasks = parked.answer()
            if not open_tasks and all(client.done() for client in clients) and not waiting(site):
                break
            time.sleep(0.3)
        for client in clients:
            if client.done() and (error := client.exception()) is not None:
                self._book.wrong.append(f"a client ended: {type(error).__name__}: {error}")
        return parked
