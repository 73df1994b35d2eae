"""Waste of every kind that a rule looks for, and decoys that look like it."""

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from random import Random

from dragoman_costs.synthetic import building as b
from dragoman_costs.synthetic.catalogue import KUBERNETES, Machines
from dragoman_costs.synthetic.estate import Resource, Waste

_X86 = {"aws": ("m7i.xlarge", 0.2251), "azure": ("Standard_D8s_v5", 0.384), "gcp": ("n2-standard-8", 0.388)}
_PRODUCTION = {"environment": "production", "team": "platform"}


@dataclass(slots=True)
class Wasteful:
    """Resources with their truth."""

    resources: list[Resource] = field(default_factory=list[Resource])
    waste: list[Waste] = field(default_factory=list[Waste])
    decoys: list[str] = field(default_factory=list[str])

    def add(self, resource: Resource, rule: str = "") -> None:
        """Add waste that a rule should find, or a decoy that none should."""
        self.resources.append(resource)
        if rule:
            self.waste.append(Waste(rule, resource.id))
        else:
            self.decoys.append(resource.id)


def waste_machines(rng: Random, cloud: Machines, first_day: date, days: int) -> Wasteful:
    """Return the waste of one cloud."""
    made = Wasteful()
    _idle(rng, cloud, made, days)
    _oversized(rng, cloud, made)
    _old(rng, cloud, made)
    _awake(rng, cloud, made)
    _disks(rng, cloud, made, days)
    _snapshots(rng, cloud, made, first_day, days)
    for number, reads in enumerate((0.0, 0.01)):
        gb = rng.uniform(9_000, 20_000)
        made.add(
            b.bucket(cloud, f"{cloud.account.provider}-archive-{number}", gb, cloud.standard_class, reads=reads),
            "storage_class",
        )
    made.add(b.bucket(cloud, f"{cloud.account.provider}-cold", 12_000, "COLD", reads=0.0))
    return made


def waste_pods(rng: Random) -> Wasteful:
    """Return workloads that request far more than they use."""
    made = Wasteful()
    for number, space in enumerate(KUBERNETES.sub_accounts[:2]):
        pods = b.workload(space, f"legacy-{number}", 16, cpu=rng.uniform(6, 14), memory=rng.uniform(10, 25))
        made.add(pods, "rightsize")
    return made


def _machine(
    rng: Random, cloud: Machines, kind: tuple[str, float], *, tags: dict[str, str], hints: dict[str, str], name: str
) -> Resource:
    return Resource(
        account=cloud.account, id=f"{cloud.prefix}{rng.randrange(16**10):010x}", name=name, type="Virtual machine",
        service=cloud.service, category="Compute", region=cloud.region, sub_account=cloud.account.sub_accounts[0],
        description=f"{kind[0]}, per hour", unit="Hours", quantity=24, price=kind[1], tags=tags,
        hints=b.machine_hints(kind[0], cpu=0, memory=0) | hints,
    )  # fmt: skip


def _idle(rng: Random, cloud: Machines, made: Wasteful, days: int) -> None:
    quiet = {"x_CpuP95": "1.8", "x_MemoryP95": "9.0", "x_NetworkGB": "0.01"}
    for number in range(2):
        quiet |= {"x_CpuP95": f"{rng.uniform(0.5, 4.4):.1f}"}
        tags = _PRODUCTION if number else {"environment": "test", "team": "mobile"}
        machine = _machine(rng, cloud, cloud.usual[number], tags=tags, hints=quiet, name=f"forgotten-{number}")
        made.add(machine, "terminate_idle")
    standby = _machine(
        rng, cloud, cloud.usual[0], tags=_PRODUCTION | {"dragoman:keep": "standby"}, hints=quiet, name="standby"
    )
    made.add(standby)
    made.add(replace(_machine(rng, cloud, cloud.usual[0], tags={}, hints=quiet, name="new"), first=days - 4))
    # It sleeps most of the time and is needed each Monday.
    weekly = quiet | {"x_CpuP95": "2.0|88", "x_MemoryP95": "9.0|70", "x_NetworkGB": "0.01|40"}
    made.add(_machine(rng, cloud, cloud.usual[1], tags=_PRODUCTION, hints=weekly, name="weekly-report"))


def _oversized(rng: Random, cloud: Machines, made: Wasteful) -> None:
    large = cloud.usual[1]
    for number in range(3):
        hints = {"x_CpuP95": f"{rng.uniform(8, 36):.1f}", "x_MemoryP95": f"{rng.uniform(10, 36):.1f}"}
        made.add(_machine(rng, cloud, large, tags=_PRODUCTION, hints=hints, name=f"roomy-{number}"), "rightsize")
    for number in range(2):
        full = {"x_CpuP95": f"{rng.uniform(8, 28):.1f}", "x_MemoryP95": f"{rng.uniform(70, 90):.1f}"}
        made.add(_machine(rng, cloud, large, tags=_PRODUCTION, hints=full, name=f"cache-{number}"))


def _old(rng: Random, cloud: Machines, made: Wasteful) -> None:
    busy = {"x_CpuP95": "64.0", "x_MemoryP95": "61.0"}
    for number in range(3):
        kind = cloud.older[number % len(cloud.older)]
        made.add(_machine(rng, cloud, kind, tags=_PRODUCTION, hints=busy, name=f"veteran-{number}"), "generation")
    spot = replace(_machine(rng, cloud, cloud.older[0], tags=_PRODUCTION, hints=busy, name="spot"), dynamic=True)
    made.add(replace(spot, discount=0.68))
    x86 = _X86[cloud.account.provider]
    for number in range(2):
        made.add(_machine(rng, cloud, x86, tags=_PRODUCTION, hints=busy, name=f"intel-{number}"), "migrate")
    windows = _machine(rng, cloud, x86, tags=_PRODUCTION | {"os": "windows"}, hints=busy, name="windows")
    made.add(windows)


def _awake(rng: Random, cloud: Machines, made: Wasteful) -> None:
    """Machines for development that run at night, and some that do not."""
    busy = {"x_CpuP95": "52.0", "x_MemoryP95": "55.0"}
    for number, stage in enumerate(("dev", "staging", "test")):
        tags = {"environment": stage, "team": "mobile"}
        machine = _machine(rng, cloud, cloud.usual[1], tags=tags, hints=busy, name=f"{stage}-{number}")
        made.add(machine, "schedule")
    asleep = _machine(rng, cloud, cloud.usual[1], tags={"environment": "dev"}, hints=busy, name="dev-asleep")
    made.add(replace(asleep, quantity=11, weekend=0.0))


def _disks(rng: Random, cloud: Machines, made: Wasteful, days: int) -> None:
    home = cloud.account.sub_accounts[0]
    for _ in range(3):
        made.add(b.volume(rng, cloud, home, {}, gb=rng.choice((300, 500, 800)), state="available"), "unattached_volume")
    made.add(b.volume(rng, cloud, home, {}, gb=500, state="available", first=days - 3))


def _snapshots(rng: Random, cloud: Machines, made: Wasteful, first_day: date, days: int) -> None:
    today = first_day + timedelta(days=days - 1)
    for number, age in enumerate((200, 340, 420, 20)):
        snapshot = Resource(
            account=cloud.account, id=f"snap-{rng.randrange(16**10):010x}", name=f"before-upgrade-{number}",
            type="Snapshot", service=cloud.disk_service, category="Storage", region=cloud.region,
            sub_account=cloud.account.sub_accounts[0], description="Snapshot storage, per GB and month",
            unit="GB-Days", quantity=rng.uniform(1_200, 2_500), price=cloud.snapshot_price / 30,
            first=max(0, days - age), hints={"x_CreatedAt": (today - timedelta(days=age)).isoformat()},
        )  # fmt: skip
        made.add(snapshot, "old_snapshot" if age > 90 else "")
