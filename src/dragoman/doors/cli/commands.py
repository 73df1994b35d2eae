"""The command line: a few commands of its own, and one for every operation."""

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import rich_click as click

from dragoman.doors.cli.endings import Ending, WrongUsage
from dragoman.doors.cli.program import Programs, program
from dragoman.infra.extensions import ExtensionError
from dragoman.plugin import Command, installed_plugins

_RUN, _IDENTITY, _KNOWN = "Run it", "Who may do what", "What is known"
_WORK, _PROOF, _BESIDE = "What is worked on", "What was done", "What plugins bring"
_HELP = click.RichHelpConfiguration(theme="default-slim", enable_theme_env_var=False, text_markup=None, max_width=100)


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as the root lists it; what it is made of is imported only when it is called."""

    panel: str
    summary: str
    load: Callable[["Entry"], click.Command]


class Root(click.RichGroup):
    """Knows every command by name and loads the one that is called: a command line is slow by its imports."""

    def __init__(self, entries: Mapping[str, Entry], **options: Any) -> None:
        super().__init__(**options)
        self._entries = entries
        for name, entry in entries.items():
            self.add_command(click.RichCommand(name=name, help=entry.summary, panel=entry.panel))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """In the order in which one needs them."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called, whole."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name and name in self._entries else command, rest

    def load(self, name: str) -> click.Command:
        """A command with everything below it."""
        entry = self._entries[name]
        return entry.load(entry)


def create(programs: Programs) -> Root:
    """The root command."""
    entries = {
        "serve": Entry(_RUN, "Run the server.", lambda _: _running("serve", programs)),
        "worker": Entry(
            _RUN, "Run background work only; register workers of others.", lambda _: _running("worker", programs)
        ),
        "migrate": Entry(_RUN, "Bring a database to what this release needs.", lambda _: _running("migrate", programs)),
        "mcp": Entry(_RUN, "Serve MCP on standard input and output.", lambda _: _mcp(programs)),
        "demo": Entry(_RUN, "Watch what this is for, in ninety seconds.", _demo),
        "config": Entry(_RUN, "Show and check the configuration.", _config),
        "version": Entry(_RUN, "Print the version.", _version),
        "whoami": Entry(_IDENTITY, "Say who the server takes you for.", _whoami),
        "token": Entry(_IDENTITY, "Make a bearer token, or revoke one.", _token),
        "tenant": Entry(_IDENTITY, "Organisations whose data nobody else sees.", _noun("tenant")),
        "user": Entry(_IDENTITY, "The people of a tenant.", _noun("user")),
        "key": Entry(_IDENTITY, "API keys for programs.", _noun("key")),
        "a2a-agent": Entry(_IDENTITY, "Agents of others at the agent gateway.", _noun("a2a_agent")),
        "ca": Entry(_IDENTITY, "A private authority for the certificates of agents.", _authority),
        "grant": Entry(_IDENTITY, "Who may act for whom.", _noun("grant")),
        "subscription": Entry(_IDENTITY, "Webhooks of other systems that are told of events.", _noun("subscription")),
        "delivery": Entry(_IDENTITY, "What was sent to subscriptions, and sending it again.", _noun("delivery")),
        "knowledge": Entry(_KNOWN, "Decisions, policies, patterns and specs, and what they demand.", _knowledge),
        "memory": Entry(_KNOWN, "What agents and people want remembered.", _memory),
        "governance": Entry(_KNOWN, "Policies in force, what breaks them, and drift.", _governance),
        "document": Entry(_WORK, "Contracts and other documents, in versions.", _document),
        "checklist": Entry(_WORK, "What must be there before, at and after a closing.", _noun("checklist")),
        "webhook-source": Entry(
            _WORK, "Who may send webhooks, and how they prove themselves.", _noun("webhook_source")
        ),
        "webhook-event": Entry(_WORK, "What webhooks brought, and what became of it.", _noun("webhook_event")),
        "template": Entry(_WORK, "What contracts are drafted from.", _noun("template")),
        "capability": Entry(_WORK, "Which worker may perform which action.", _capability),
        "approval": Entry(_WORK, "What waits for consent, and consenting to it.", _approval),
        "task": Entry(_WORK, "Actions that were handed over, and every other task.", _task),
        "signature": Entry(_WORK, "Requests for signatures, and what signatures are worth.", _signature),
        "link": Entry(_WORK, "One-time links for signers without an account.", _noun("link")),
        "profile": Entry(_WORK, "What contract work can be delegated here, and how.", _profile),
        "parity": Entry(_PROOF, "Hold the doors of a running server against each other.", _parity),
        "bench": Entry(_PROOF, "Measure how well a running server does.", _bench),
        "audit": Entry(_PROOF, "Who did what, provably.", _audit),
    }
    entries |= {
        one.name: Entry(_BESIDE, one.summary, _plugged(one))
        for plugin in installed_plugins()
        for one in plugin.commands
    }
    root = Root(
        {**entries, "serve-child": Entry(_RUN, "", lambda _: _running("serve-child", programs))},
        name=program(),
        help="One governed back-end for AI agents.\n\n"
        f"Start it with `{program()} serve`; every other command talks to a running server: the one at DRAGOMAN_URL, "
        "else the one of this machine. It acts as the bearer of DRAGOMAN_TOKEN, else as the person at the keyboard.",
        epilog=f"Example: {program()} tenant create --name 'Acme Corporation' --slug acme\n\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no server, 4 not allowed.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "rich_help_config": _HELP},
    )
    root.commands["serve-child"].hidden = True
    return root


def run(programs: Programs) -> NoReturn:
    """Run the command that was typed and end with the exit code that the contract gives it."""
    try:
        root = create(programs)
    except ExtensionError as error:
        _end(WrongUsage(str(error)))
    try:
        root.main(prog_name=program(), standalone_mode=False)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else program()
        _end(WrongUsage(f"{error.format_message()}\nHelp: {where} --help"))
    except click.ClickException as error:
        _end(WrongUsage(error.format_message()))
    except click.Abort:
        sys.exit(130)
    except Ending as ending:
        _end(ending)
    sys.exit(0)


def _end(ending: Ending) -> NoReturn:
    from dragoman.doors.cli.views import View  # noqa: PLC0415 - only now is it needed

    # Asked of the words themselves: a command line that cannot be understood has no option to look at.
    View(as_json="--json" in sys.argv[1:]).ending(ending)
    sys.exit(ending.status)


# Each of these imports what its command needs; see Root.


def _running(name: str, programs: Programs) -> click.Command:
    from dragoman.doors.cli import running  # noqa: PLC0415

    return running.command(name, programs)


def _mcp(programs: Programs) -> click.Command:
    from dragoman.doors.cli.pipes import mcp_command  # noqa: PLC0415

    return mcp_command(programs)


def _config(_: Entry) -> click.Command:
    from dragoman.doors.cli.configuration import config_command  # noqa: PLC0415

    return config_command()


def _version(_: Entry) -> click.Command:
    from dragoman.doors.cli.version import version_command  # noqa: PLC0415

    return version_command()


def _token(_: Entry) -> click.Command:
    from dragoman.doors.cli.tokens import token_command  # noqa: PLC0415

    return token_command()


def _whoami(_: Entry) -> click.Command:
    from dragoman.doors.cli.projection import project_operation  # noqa: PLC0415
    from dragoman.doors.cli.session import binding_of  # noqa: PLC0415

    return project_operation(binding_of("identity.show"), name="whoami")


def _noun(noun: str) -> Callable[[Entry], click.Command]:
    def load(entry: Entry) -> click.Command:
        from dragoman.doors.cli.projection import project_noun  # noqa: PLC0415

        return project_noun(noun, entry.summary)

    return load


def _authority(entry: Entry) -> click.Command:
    from dragoman.doors.cli.authorities import authority_commands  # noqa: PLC0415

    return authority_commands(entry.summary)


def _plugged(command: Command) -> Callable[[Entry], click.Command]:
    """Return what loads a command of a plugin: a function that it names, or the operations of a noun."""

    def load(entry: Entry) -> click.Command:
        if not command.load:
            return _noun(command.name.replace("-", "_"))(entry)
        module, _, function = command.load.partition(":")
        made: click.Command = getattr(importlib.import_module(module), function)(entry.summary)
        return made

    return load


def _memory(entry: Entry) -> click.Command:
    from dragoman.doors.cli.memories import memory_commands  # noqa: PLC0415

    return memory_commands(entry.summary)


def _bench(entry: Entry) -> click.Command:
    from dragoman.doors.cli.retrieval import bench_commands  # noqa: PLC0415

    return bench_commands(entry.summary)


def _knowledge(entry: Entry) -> click.Command:
    from dragoman.doors.cli.knowledge import knowledge_commands  # noqa: PLC0415

    return knowledge_commands(entry.summary)


def _document(entry: Entry) -> click.Command:
    from dragoman.doors.cli.documents import document_commands  # noqa: PLC0415

    return document_commands(entry.summary)


def _signature(entry: Entry) -> click.Command:
    from dragoman.doors.cli.signatures import signature_commands  # noqa: PLC0415

    return signature_commands(entry.summary)


def _audit(entry: Entry) -> click.Command:
    from dragoman.doors.cli.trail import audit_commands  # noqa: PLC0415

    return audit_commands(entry.summary)


def _profile(entry: Entry) -> click.Command:
    from dragoman.doors.cli.workers import profile_commands  # noqa: PLC0415

    return profile_commands(entry.summary)


def _capability(entry: Entry) -> click.Command:
    from dragoman.doors.cli.workers import capability_commands  # noqa: PLC0415

    return capability_commands(entry.summary)


def _governance(entry: Entry) -> click.Command:
    from dragoman.doors.cli.governing import governance_commands  # noqa: PLC0415

    return governance_commands(entry.summary)


def _approval(entry: Entry) -> click.Command:
    from dragoman.doors.cli.approvals import approval_commands  # noqa: PLC0415

    return approval_commands(entry.summary)


def _task(entry: Entry) -> click.Command:
    from dragoman.doors.cli.tasks import task_commands  # noqa: PLC0415

    return task_commands(entry.summary)


def _parity(entry: Entry) -> click.Command:
    from dragoman.doors.cli.parity import parity_commands  # noqa: PLC0415

    return parity_commands(entry.summary)


def _demo(_: Entry) -> click.Command:
    from dragoman.doors.cli.demo import demo_command  # noqa: PLC0415

    return demo_command()
