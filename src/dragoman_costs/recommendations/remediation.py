"""The action `remediation.execute`: what a worker is given, and the worker of ours that makes a plan and no more."""

import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from dragoman.context import Role, report_progress
from dragoman.operations import Input
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from dragoman_costs.money import Amount
from dragoman_costs.recommendations.findings import Kind, Risk
from dragoman_costs.recommendations.store import Record

ACTION: Final = "remediation.execute"
RESOURCE_TYPE: Final = "recommendation"
PLANNER: Final = "remediation-planner"
Json = dict[str, Any]


class Remediation(Input):
    """An approved recommendation, as whoever carries it out needs it."""

    recommendation_id: UUID
    rule: str
    type: Kind
    risk: Risk
    provider: str
    account: str
    region: str
    sub_account: str
    service: str
    resource_id: str
    current_config: Json
    recommended_config: Json
    saving_monthly: Amount
    currency: str


def remediation_of(row: Record, account: str) -> Json:
    """Return the input of the action for a recommendation; `account` is the identifier of its cloud account."""
    given = Remediation(
        recommendation_id=row["id"], rule=row["rule"], type=row["type"], risk=row["risk"], provider=row["provider"],
        account=account, region=row["region"], sub_account=row["sub_account"], service=row["service"],
        resource_id=row["resource_id"], current_config=row["current_config"],
        recommended_config=row["recommended_config"], saving_monthly=cast("Decimal", row["version_saving"]),
        currency=row["currency"],
    )  # fmt: skip
    return given.model_dump(mode="json")


def _is_risky(given: Mapping[str, Any]) -> bool:
    return given.get("risk") == Risk.HIGH


EXECUTE: Final = Capability(
    ACTION, "Carry out an approved recommendation", Remediation, required=False, timeout_s=600, at_once=10,
    sensitive_when=_is_risky, approvers=frozenset({Role.ORG_ADMIN}), permissions=("write:remediation",),
)  # fmt: skip


class RemediationPlanner:
    """Writes down what is to be done, where the tenant has registered no worker that does it."""

    name = PLANNER
    capabilities: Sequence[Capability] = (EXECUTE,)

    async def perform(self, assignment: Assignment) -> Performed:
        """Return the steps. Nothing is changed anywhere."""
        given = cast("Remediation", assignment.input)
        await report_progress("Writing the plan", 50)
        return Performed(
            {
                "executed": False, "dry_run": True,
                "notice": "NOT EXECUTED. This is a plan. No worker is registered for remediation.execute.",
                "recommendation_id": str(given.recommendation_id), "steps": plan(given),
            }
        )  # fmt: skip


def plan(given: Remediation) -> list[Json]:
    """Return the steps in their order, each with the command where one is known for the provider."""
    commands = _COMMANDS.get(given.rule, _nothing)(given)
    steps = [
        {"step": number, "what": what, **({"command": command} if command else {})}
        for number, (what, command) in enumerate(commands, 1)
    ]
    steps.append({"step": len(steps) + 1, "what": "Import the next bills: realised saving is computed from them."})
    return steps


Steps = list[tuple[str, str]]


def _nothing(given: Remediation) -> Steps:
    return [
        (f"Change {given.resource_id or given.service} from {given.current_config} to {given.recommended_config}.", "")
    ]


def _by_provider(given: Remediation, commands: Mapping[str, str]) -> str:
    """Return the command of the provider with its blanks filled in, each of them quoted for a shell."""
    key = next((key for key in commands if key.lower() in given.provider.lower()), "")
    fields = {"id": given.resource_id.rpartition("/")[2] or given.resource_id, "region": given.region,
              "group": given.sub_account, "account": given.account,
              "type": str(given.recommended_config.get("machine_type", "")),
              "cpu": str(given.recommended_config.get("cpu_requested", ""))}  # fmt: skip
    return commands[key].format(**{name: shlex.quote(value) for name, value in fields.items()}) if key else ""


def _resize(given: Remediation) -> Steps:
    if "cpu_requested" in given.recommended_config:
        command = "kubectl -n {group} set resources deployment/{id} --requests=cpu={cpu}"
        return [("Lower the requests; pods are replaced one after another.", _by_provider(given, {"kube": command}))]
    stop = {"aws": "aws ec2 stop-instances --region {region} --instance-ids {id}",
            "microsoft": "az vm deallocate --resource-group {group} --name {id}",
            "google": "gcloud compute instances stop {id} --project {group}"}  # fmt: skip
    change = {
        "aws": "aws ec2 modify-instance-attribute --region {region} --instance-id {id} --instance-type {type}",
        "microsoft": "az vm resize --resource-group {group} --name {id} --size {type}",
        "google": "gcloud compute instances set-machine-type {id} --project {group} --machine-type {type}",
    }
    start = {"aws": "aws ec2 start-instances --region {region} --instance-ids {id}",
             "microsoft": "az vm start --resource-group {group} --name {id}",
             "google": "gcloud compute instances start {id} --project {group}"}  # fmt: skip
    return [
        ("Announce a short interruption, and stop the machine.", _by_provider(given, stop)),
        (f"Change its type to {given.recommended_config.get('machine_type')}.", _by_provider(given, change)),
        ("Start it, and watch CPU and memory for a day.", _by_provider(given, start)),
    ]


def _rebuild(given: Remediation) -> Steps:
    machine = given.recommended_config.get("machine_type")
    return [
        ("Build the software for ARM, and run its tests there.", ""),
        (f"Start a machine of type {machine} beside it, and move traffic over.", ""),
        ("End the old machine when the new one has worked for a day.", ""),
    ]


def _end(given: Remediation) -> Steps:
    keep = {
        "aws": "aws ec2 create-image --region {region} --instance-id {id} --name before-end-{id}",
        "microsoft": "az vm deallocate --resource-group {group} --name {id}",
        "google": "gcloud compute machine-images create before-end --source-instance {id} --project {group}",
    }
    end = {"aws": "aws ec2 terminate-instances --region {region} --instance-ids {id}",
           "microsoft": "az vm delete --resource-group {group} --name {id} --yes",
           "google": "gcloud compute instances delete {id} --project {group} --quiet"}  # fmt: skip
    return [("Keep an image of it.", _by_provider(given, keep)), ("End the machine.", _by_provider(given, end))]


def _delete_volume(given: Remediation) -> Steps:
    keep = {"aws": "aws ec2 create-snapshot --region {region} --volume-id {id}",
            "microsoft": "az snapshot create --resource-group {group} --name before-delete --source {id}",
            "google": "gcloud compute disks snapshot {id} --project {group}"}  # fmt: skip
    end = {"aws": "aws ec2 delete-volume --region {region} --volume-id {id}",
           "microsoft": "az disk delete --resource-group {group} --name {id} --yes",
           "google": "gcloud compute disks delete {id} --project {group} --quiet"}  # fmt: skip
    return [("Take a snapshot.", _by_provider(given, keep)), ("Delete the volume.", _by_provider(given, end))]


def _delete_snapshot(given: Remediation) -> Steps:
    end = {"aws": "aws ec2 delete-snapshot --region {region} --snapshot-id {id}",
           "microsoft": "az snapshot delete --resource-group {group} --name {id}",
           "google": "gcloud compute snapshots delete {id} --project {group} --quiet"}  # fmt: skip
    return [("Delete the snapshot; see first that no image uses it.", _by_provider(given, end))]


def _sleep(given: Remediation) -> Steps:
    hours = given.recommended_config.get("hours_a_day")
    return [
        (f"Start the machine each morning from Monday to Friday, and stop it after {hours} hours.", ""),
        ("Tell its team how to wake it.", ""),
    ]


def _cool(given: Remediation) -> Steps:
    name = given.recommended_config.get("storage_class")
    return [(f"Add a lifecycle rule that moves objects to {name} after 30 days, and move those that are older.", "")]


def _commit(given: Remediation) -> Steps:
    amount, term = given.recommended_config.get("commitment_daily"), given.recommended_config.get("term")
    return [
        (f"Compare offers of {given.provider} for {given.service}: {amount} {given.currency} a day, {term}.", ""),
        (f"Buy the commitment in the account {given.account}, for {given.region}.", ""),
    ]


_COMMANDS: Final = {
    "rightsize": _resize, "generation": _resize, "migrate": _rebuild, "terminate_idle": _end,
    "unattached_volume": _delete_volume, "old_snapshot": _delete_snapshot, "schedule": _sleep, "storage_class": _cool,
    "commitment": _commit,
}  # fmt: skip
