"""`dragoman worker register|list|update|remove` and `dragoman capability`: who performs what."""

from typing import Any

import rich_click as click

from dragoman.addresses import bindings
from dragoman.doors.cli.projection import JsonText, project_noun, project_operation
from dragoman.doors.cli.session import Asked, call
from dragoman.doors.cli.views import View


def registration_commands() -> list[click.RichCommand]:
    """Those of workers; an action is typed by its name, or as JSON with all that there is to say of it."""
    commands = [project_operation(binding) for binding in bindings() if binding.operation.skill == "worker"]
    for param in (param for command in commands for param in command.params if param.name == "actions"):
        param.type = _Action()
    return commands


def capability_commands(help_text: str) -> click.RichGroup:
    """Those of capabilities; a decision is shown as the table it leaves."""
    group = project_noun("capability", help_text)
    group.commands["allow"].callback = _decided("capability.allow")
    group.commands["deny"].callback = _decided("capability.deny")
    return group


def profile_commands(help_text: str) -> click.RichGroup:
    """That of the profile: the actions as a table, then where to go with them."""
    group = project_noun("profile", help_text)
    group.commands["show"].callback = _show_profile
    return group


def _show_profile(as_json: bool, as_tenant: str | None, **given: Any) -> None:  # noqa: FBT001 - click calls it by name
    values = {name: value for name, value in given.items() if value is not None}
    profile = call("profile.show", values, Asked(as_json, as_tenant))["data"]
    view = View(as_json=as_json)
    if as_json:
        view.json(profile)
        return
    supported = ", ".join(profile["supported_versions"])
    view.say(("contracts profile ", "bold"), profile["profile_version"], (f"  supported: {supported}", "dim"))
    view.rows("profile", profile["actions"])
    for mode in profile["governance_modes"]:
        view.say((f"{mode['mode']:<10}", "bold"), mode["description"])
    for endpoint in profile["endpoints"]:
        spoken = f"{endpoint['protocol']} {endpoint['version'] or ''}".strip()
        view.say((f"{spoken:<10}", "bold"), endpoint["url"], (f"  {endpoint['binding']}", "dim"))


def _decided(operation: str) -> Any:
    def callback(
        as_json: bool,  # noqa: FBT001 - click calls it by name
        as_tenant: str | None,
        idempotency_key: str | None,
        **given: Any,
    ) -> None:
        values = {name: value for name, value in given.items() if value is not None}
        decision = call(operation, values, Asked(as_json, as_tenant, idempotency_key))["data"]
        view = View(as_json=as_json)
        if as_json:
            view.json(decision)
            return
        view.rows("capability", decision["capabilities"])
        if decision["performed_by"] is None:
            view.say(("nobody", "bold yellow"), f" performs {decision['action']} now: a task for it is refused")
        else:
            view.say((decision["performed_by"], "bold green"), f" performs {decision['action']}")

    return callback


class _Action(JsonText):
    """The name of an action, or an object."""

    name = "ACTION|JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            return value
        return super().convert(value, param, ctx)
