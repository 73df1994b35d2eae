"""The rules that look for savings: each on evidence that is written by hand, and all on spend whose waste is known."""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from dragoman_costs.recommendations.analysis import RuleSettings, analyse, default_settings
from dragoman_costs.recommendations.evidence import Line, PoolUse, ResourceUse
from dragoman_costs.recommendations.findings import Confidence, Exclusions, Finding, Kind, Risk
from dragoman_costs.recommendations.machines import find_arm, find_smaller, find_successor
from dragoman_costs.recommendations.rules import OPTIONS

ACCOUNT = UUID(int=7)
FIRST = date(2026, 10, 1)


def lines(
    count: int = 30, *, amount: str = "10", on_demand: str | None = None, quantity: int = 24, **levels: float
) -> list[Line]:
    sums = (Decimal(amount), Decimal(on_demand or amount), Decimal(quantity))
    return [Line(UUID(int=1), index + 1, FIRST + timedelta(days=index), *sums, levels) for index in range(count)]


def use(days: list[Line], *, machine: str = "", tags: Mapping[str, str] | None = None, **fields: Any) -> ResourceUse:
    details = {"SkuPriceDetails": f'{{"InstanceType":"{machine}"}}', **fields.pop("details", {})}
    given: dict[str, Any] = {
        "account_id": ACCOUNT, "provider": "AWS", "service": "EC2", "category": "Compute", "region": "eu-west-1",
        "sub_account": "a", "resource_id": "i-1", "name": "web", "type": "Virtual machine", "unit": "Hours",
        "currency": "USD", "description": "", "first_seen": FIRST, "tags": tags or {}, "details": details,
        "lines": days,
    }  # fmt: skip
    return ResourceUse(**{**given, **fields})


def found(*resources: ResourceUse, pools: tuple[PoolUse, ...] = (), **settings: RuleSettings) -> list[Finding]:
    return analyse(resources, pools, default_settings() | settings)


def only(resource: ResourceUse) -> Finding:
    (finding,) = found(resource)
    return finding


BUSY: Any = {"cpu": 70.0, "memory": 60.0}


def test_a_machine_that_uses_a_tenth_gets_a_quarter_of_its_size() -> None:
    finding = only(use(lines(cpu=12.0, memory=15.0), machine="m7g.2xlarge"))

    assert (finding.rule, finding.kind, finding.recommended) == (
        "rightsize",
        Kind.RIGHTSIZE,
        {"machine_type": "m7g.large"},
    )
    assert (finding.saving, finding.confidence, finding.risk) == (Decimal("225.00"), Confidence.HIGH, Risk.HIGH)


@pytest.mark.parametrize(
    "levels", [{"cpu": 12.0, "memory": 85.0}, {"cpu": 55.0, "memory": 10.0}, {"cpu": 12.0}, {"memory": 12.0}, {}]
)
def test_a_machine_is_not_too_large_where_one_measure_is_high_or_not_told(levels: Any) -> None:
    assert found(use(lines(**levels), machine="m7g.2xlarge")) == []


def test_the_busiest_day_counts() -> None:
    days = lines(cpu=3.0, memory=5.0, network=0.0)
    days[10] = Line(
        UUID(int=1),
        11,
        days[10].day,
        Decimal(10),
        Decimal(10),
        Decimal(24),
        {"cpu": 90.0, "memory": 60.0, "network": 9.0},
    )

    assert found(use(days, machine="m7g.large")) == []


def test_an_idle_machine_is_ended_and_gets_no_other_finding() -> None:
    finding = only(use(lines(cpu=1.0, memory=4.0, network=0.01), machine="m4.xlarge", tags={"environment": "dev"}))

    assert (finding.rule, finding.saving, finding.risk) == ("terminate_idle", Decimal("300.00"), Risk.MEDIUM)


def test_what_a_commitment_covers_is_not_saved_by_ending_the_machine() -> None:
    assert found(use(lines(cpu=1.0, memory=4.0, network=0.0, on_demand="0"), machine="m7g.large")) == []


@pytest.mark.parametrize(("state", "rules"), [("available", ["unattached_volume"]), ("in-use", []), ("", [])])
def test_a_volume_goes_where_the_bill_says_that_no_machine_uses_it(state: str, rules: list[str]) -> None:
    volume = use(lines(), type="Volume", unit="GB-Days", details={"x_VolumeState": state})

    assert [finding.rule for finding in found(volume)] == rules


@pytest.mark.parametrize(
    ("made", "seen", "rules"),
    [
        ("2026-01-01", FIRST, ["old_snapshot"]),
        ("2026-10-20", FIRST, []),
        ("", date(2026, 1, 1), ["old_snapshot"]),
        ("", FIRST, []),
        ("yesterday", FIRST, []),
    ],
)
def test_a_snapshot_is_as_old_as_the_bill_says_or_as_its_first_row(made: str, seen: date, rules: list[str]) -> None:
    snapshot = use(lines(), type="Snapshot", unit="GB-Days", first_seen=seen, details={"x_CreatedAt": made})

    assert [finding.rule for finding in found(snapshot)] == rules


def test_a_machine_for_development_that_never_sleeps_is_scheduled() -> None:
    finding = only(use(lines(**BUSY), machine="m7g.large", tags={"environment": "Staging"}))

    assert (finding.rule, finding.kind, finding.risk) == ("schedule", Kind.SCHEDULE, Risk.LOW)
    assert finding.recommended["hours_a_week"] == 60
    assert finding.saving == Decimal("192.86")


@pytest.mark.parametrize(
    ("tags", "hours"), [({"environment": "production"}, 24), ({}, 24), ({"environment": "dev"}, 11)]
)
def test_production_and_what_sleeps_already_is_not_scheduled(tags: dict[str, str], hours: int) -> None:
    assert found(use(lines(quantity=hours, **BUSY), machine="m7g.large", tags=tags)) == []


def test_an_older_generation_moves_to_its_successor_and_a_current_one_to_arm() -> None:
    older = only(use(lines(**BUSY), machine="m4.xlarge"))
    current = only(use(lines(**BUSY), machine="m7i.xlarge"))

    assert (older.rule, older.recommended) == ("generation", {"machine_type": "m7i.xlarge"})
    assert (current.rule, current.recommended["machine_type"]) == ("migrate", "m7g.xlarge")
    assert current.confidence is Confidence.MEDIUM
    assert found(use(lines(**BUSY), machine="m7i.xlarge", tags={"os": "Windows"})) == []


def test_objects_that_are_not_read_get_a_colder_class() -> None:
    def bucket(reads: float, kept: str = "STANDARD") -> ResourceUse:
        return use(lines(reads=reads), type="Bucket", unit="GB-Days", details={"x_StorageClass": kept})

    assert only(bucket(0.01)).rule == "storage_class"
    assert found(bucket(0.5)) == []
    assert found(bucket(0.0, "GLACIER")) == []


def pool(days: list[Line]) -> PoolUse:
    return PoolUse(ACCOUNT, "AWS", "EC2", "eu-west-1", "USD", days)


def test_a_commitment_covers_what_is_used_every_day_less_what_others_would_save() -> None:
    idle = use(lines(cpu=1.0, memory=4.0, network=0.0), machine="m7g.large")
    alone = found(pools=(pool(lines(amount="100")),))
    beside = found(idle, pools=(pool(lines(amount="100")),))

    assert [(one.rule, one.saving, one.risk) for one in alone] == [("commitment", Decimal("756.00"), Risk.HIGH)]
    assert [one.saving for one in beside] == [Decimal("300.00"), Decimal("680.40")]


def test_use_on_working_days_alone_is_not_committed_to() -> None:
    days = [Line(one.slice_id, 0, one.day, amount, amount, Decimal(24)) for one in lines()
            if (amount := Decimal(100 if one.day.weekday() < 5 else 0)) >= 0]  # fmt: skip

    assert found(pools=(pool(days),)) == []


@pytest.mark.parametrize(
    "exclusions",
    [
        {"accounts": [str(ACCOUNT)]}, {"sub_accounts": ["a"]}, {"regions": ["eu-west-1"]}, {"services": ["EC2"]},
        {"resources": ["i-*"]}, {"tags": ["team"]}, {"tags": ["team=core"]},
    ],
)  # fmt: skip
def test_what_a_tenant_excludes_is_left_alone(exclusions: dict[str, Any]) -> None:
    old = use(lines(**BUSY), machine="m4.xlarge", tags={"team": "core"})
    settings = RuleSettings(enabled=True, options=OPTIONS["generation"].model_validate({}),
                            exclusions=Exclusions.model_validate(exclusions))  # fmt: skip

    assert found(old, generation=settings) == []
    assert [one.rule for one in found(old)] == ["generation"]


def test_a_rule_that_is_off_or_whose_least_saving_is_not_reached_finds_nothing() -> None:
    old = use(lines(**BUSY), machine="m4.xlarge")
    for enabled, least in ((False, 0.0), (True, 31.0)):
        options = OPTIONS["generation"].model_validate({"min_saving": least})
        settings = RuleSettings(enabled=enabled, options=options, exclusions=Exclusions.model_validate({}))

        assert found(old, generation=settings) == []


def test_few_days_make_a_finding_less_sure_and_fewer_make_none() -> None:
    assert only(use(lines(20, **BUSY), machine="m4.xlarge")).confidence is Confidence.MEDIUM
    assert only(use(lines(8, **BUSY), machine="m4.xlarge")).confidence is Confidence.LOW
    assert found(use(lines(3, **BUSY), machine="m4.xlarge")) == []


@pytest.mark.parametrize(
    ("machine", "smaller", "successor", "arm"),
    [
        ("m4.xlarge", "m4.large", "m7i.xlarge", None),
        ("db.r5.2xlarge", "db.r5.xlarge", None, "db.r7g.2xlarge"),
        ("t3.nano", None, None, "t4g.nano"),
        ("Standard_D8s_v5", "Standard_D4s_v5", None, "Standard_D8ps_v5"),
        ("Standard_D4_v3", "Standard_D2_v3", "Standard_D4s_v5", None),
        ("Standard_D4ps_v5", "Standard_D2ps_v5", None, None),
        ("n1-standard-8", "n1-standard-4", "n2d-standard-8", None),
        ("n2-standard-2", None, None, "t2a-standard-2"),
        ("quantum.huge", None, None, None),
        ("", None, None, None),
    ],
)
def test_types_of_machines_are_read_as_clouds_name_them(
    machine: str, smaller: str | None, successor: str | None, arm: str | None
) -> None:
    found = [find_smaller(machine, 1), find_successor(machine), find_arm(machine)]

    assert [one.type if one else None for one in found] == [smaller, successor, arm]


def test_an_approval_is_bound_to_what_is_done_and_not_to_a_saving_that_moves() -> None:
    before = only(use(lines(**BUSY), machine="m4.xlarge"))
    dearer = only(use(lines(amount="11", **BUSY), machine="m4.xlarge"))
    other = only(use(lines(**BUSY), machine="m4.2xlarge"))

    assert before.content_sha256 == dearer.content_sha256
    assert before.content_sha256 != other.content_sha256
