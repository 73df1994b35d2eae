"""Builds an estate from a seed: what runs as it should, then waste, then surprises."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Final

from dragoman_costs.synthetic.catalogue import ACCOUNTS, KUBERNETES, MACHINES, METERED, TEAMS, WORKLOADS, Machines
from dragoman_costs.synthetic.estate import DemoAccount, Estate, Resource, SubAccount, Waste
from dragoman_costs.synthetic.surprises import surprise
from dragoman_costs.synthetic.wasting import Wasteful, waste_machines, waste_pods

# How many machines run as they should, in the order of MACHINES; each has a volume.
_USUAL: Final = (38, 24, 18)
# One in so many has no tags, as in most companies.
_UNTAGGED: Final = 7
_DATABASES: Final = {"DB instance", "Database"}
# The share of a cloud's machines that a commitment covers.
_COVERED: Final = (0.25, 0.2, 0.9)


def build_estate(seed: int, *, until: date, days: int, surprises: int = 12) -> Estate:
    """Return an estate whose last day is `until`; the same seed and days make the same."""
    rng = Random(seed)  # noqa: S311 - made-up data
    first_day = until - timedelta(days=days - 1)
    resources: list[Resource] = []
    waste: list[Waste] = []
    decoys: list[str] = []
    for cloud, count, covered in zip(MACHINES, _USUAL, _COVERED, strict=True):
        resources += _machines(rng, cloud, count, covered)
        _take(waste_machines(rng, cloud, first_day, days), resources, waste, decoys)
        waste.append(Waste("commitment", "", (cloud.account.identifier, cloud.service, cloud.region)))
        resources += _batch(rng, cloud)
    resources += _metered(rng)
    # What is on demand and runs day and night.
    databases = {(one.account.identifier, one.service, one.region) for one in resources if one.type in _DATABASES}
    waste += [Waste("commitment", "", pool) for pool in sorted(databases)]
    resources += _workloads(rng)
    _take(waste_pods(rng), resources, waste, decoys)
    tagged = [replace(one, tags={}) if rng.randrange(_UNTAGGED) == 0 and not one.hints else one for one in resources]
    added, surges, truth = surprise(rng, tagged, first_day=first_day, days=days, count=surprises)
    return Estate(
        seed, first_day, days, ACCOUNTS, (*tagged, *added), tuple(surges), tuple(truth), tuple(waste), tuple(decoys)
    )


def _take(made: Wasteful, resources: list[Resource], waste: list[Waste], decoys: list[str]) -> None:
    resources += made.resources
    waste += made.waste
    decoys += made.decoys


def _machines(rng: Random, cloud: Machines, count: int, covered: float) -> list[Resource]:
    """Return machines that are busy enough, each with a volume, and buckets that are read."""
    made: list[Resource] = []
    for number in range(count):
        kind, price = cloud.usual[number % len(cloud.usual)]
        team = TEAMS[number % len(TEAMS)]
        home = cloud.account.sub_accounts[0 if number % 3 else -1]
        tags = {"environment": "production", "team": team, "service": f"{team}-{number}"}
        under = number < count * covered
        made.append(
            Resource(
                account=cloud.account, id=f"{cloud.prefix}{rng.randrange(16**10):010x}", name=f"{team}-{number}",
                type="Virtual machine", service=cloud.service, category="Compute", region=cloud.region,
                sub_account=home, description=f"{kind}, per hour", unit="Hours", quantity=24, price=price,
                discount=0.3 if under else 0.0, commitment=f"cud-{cloud.account.provider}-1" if under else "",
                tags=tags, hints=machine_hints(kind, cpu=rng.uniform(20, 75), memory=rng.uniform(42, 85)),
            )
        )  # fmt: skip
        made.append(volume(rng, cloud, home, tags, gb=rng.choice((100, 200, 400)), state="in-use"))
    for number in range(5):
        gb = rng.uniform(2_000, 9_000)
        made.append(bucket(cloud, f"{cloud.account.provider}-live-{number}", gb, cloud.standard_class, reads=0.8))
    return made


def _batch(rng: Random, cloud: Machines) -> list[Resource]:
    """Return machines elsewhere that run on working days alone: nothing to commit to."""
    kind, price = cloud.usual[1]
    return [
        Resource(
            account=cloud.account, id=f"{cloud.prefix}{rng.randrange(16**10):010x}", name=f"batch-{number}",
            type="Virtual machine", service=cloud.service, category="Compute", region=f"{cloud.region}-b",
            sub_account=cloud.account.sub_accounts[-1], description=f"{kind}, per hour", unit="Hours", quantity=24,
            price=price, weekend=0.0, tags={"environment": "production", "team": "data"},
            hints=machine_hints(kind, cpu=80, memory=70),
        )
        for number in range(4)
    ]  # fmt: skip


def machine_hints(kind: str, *, cpu: float, memory: float, network: float = 12.0) -> dict[str, str]:
    """Return what exports may say of a machine."""
    return {
        "SkuPriceDetails": f'{{"InstanceType":"{kind}"}}', "x_CpuP95": f"{cpu:.1f}", "x_MemoryP95": f"{memory:.1f}",
        "x_NetworkGB": f"{network:.2f}",
    }  # fmt: skip


def volume(
    rng: Random, cloud: Machines, home: SubAccount, tags: dict[str, str], *, gb: float, state: str, first: int = 0
) -> Resource:
    """Return a volume."""
    return Resource(
        account=cloud.account, id=f"vol-{rng.randrange(16**10):010x}", name=f"data-{rng.randrange(1000)}",
        type="Volume", service=cloud.disk_service, category="Storage", region=cloud.region, sub_account=home,
        description=f"{cloud.volume_type} storage, per GB and month", unit="GB-Days", quantity=gb,
        price=cloud.volume_price / 30, tags=tags, first=first, hints={"x_VolumeState": state},
    )  # fmt: skip


def bucket(cloud: Machines, name: str, gb: float, storage_class: str, *, reads: float) -> Resource:
    """Return a bucket of objects; `reads` is the share of it that is read in a month."""
    return Resource(
        account=cloud.account, id=f"bucket/{name}", name=name, type="Bucket", service=cloud.object_service,
        category="Storage", region=cloud.region, sub_account=cloud.account.sub_accounts[0],
        description=f"{storage_class} storage, per GB and month", unit="GB-Days", quantity=gb,
        price=cloud.object_price / 30, growth=0.0005, tags={"environment": "production", "team": "data"},
        hints={"x_StorageClass": storage_class, "x_ReadShare30d": f"{reads:.3f}"},
    )  # fmt: skip


def _metered(rng: Random) -> list[Resource]:
    made: list[Resource] = []
    for meter in METERED:
        for number in range(meter.resources):
            share = rng.uniform(0.6, 1.4) / (meter.resources if meter.unit != "Hours" else 1)
            quantity = meter.quantity * (share if meter.unit != "Hours" else 1)
            home = meter.account.sub_accounts[number % len(meter.account.sub_accounts)]
            made.append(
                Resource(
                    account=meter.account, id=f"{meter.type.lower().replace(' ', '-')}/{_slug(meter.service)}-{number}",
                    name=f"{_slug(meter.service)}-{number}", type=meter.type, service=meter.service,
                    category=meter.category, region=_region_of(meter.account), sub_account=home,
                    description=f"{meter.service}, per {meter.unit}", unit=meter.unit, quantity=quantity,
                    price=meter.price, weekend=meter.weekend, growth=meter.growth, noise=meter.noise,
                    tags={"environment": "production", "team": TEAMS[number % len(TEAMS)]},
                )
            )  # fmt: skip
    return made


def _workloads(rng: Random) -> list[Resource]:
    made: list[Resource] = []
    for space in KUBERNETES.sub_accounts:
        for name, cores, busy in WORKLOADS:
            cpu, memory = busy + rng.uniform(-5, 8), busy + rng.uniform(-5, 15)
            made.append(workload(space, f"{name}-{space.name}", cores, cpu=cpu, memory=memory))
    return made


def workload(space: SubAccount, name: str, cores: int, *, cpu: float, memory: float) -> Resource:
    """Return what a deployment in a cluster costs: its share of the nodes, by what it requests."""
    return Resource(
        account=KUBERNETES, id=f"deployment/{space.id}/{name}", name=name, type="Deployment", service="Workloads",
        category="Compute", region="demo-cluster", sub_account=space, description="vCPU requested, per hour",
        unit="vCPU-Hours", quantity=cores * 24, price=0.034, noise=0.01,
        tags={"environment": "production", "team": "platform", "namespace": space.id},
        hints={"x_CpuP95": f"{cpu:.1f}", "x_MemoryP95": f"{memory:.1f}", "x_CpuRequested": str(cores)},
    )  # fmt: skip


def _region_of(account: DemoAccount) -> str:
    return next(cloud.region for cloud in MACHINES if cloud.account is account)


def _slug(name: str) -> str:
    return "-".join(name.lower().split()[-2:])


def count_rows(resources: Sequence[Resource], days: int) -> int:
    """Return how many rows of use the resources have in so many days."""
    return sum(min(one.last, days - 1) - one.first + 1 for one in resources)
