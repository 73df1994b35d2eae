"""`dragoman token`: make one on the spot, or have one refused."""

import rich_click as click
from click.core import ParameterSource

from dragoman.context import PrincipalType, Role
from dragoman.doors.cli.client import Client
from dragoman.doors.cli.endings import Ending, Refused, Unreachable, WrongUsage
from dragoman.doors.cli.program import program
from dragoman.doors.cli.projection import project_noun
from dragoman.doors.cli.session import DEFAULT_TENANT, binding_of, mint_token, server_url, settings_or_end
from dragoman.doors.cli.views import View
from dragoman.infra.config import Settings

_EPILOG = (
    "Example: export DRAGOMAN_TOKEN=$({0} token --tenant demo --role analyst)\n\n"
    "Example: {0} token --role agent --user nightly --scope read:costs --ttl 3600"
)


def token_command() -> click.Command:
    """Alone it makes a token; `revoke` is below it."""

    @click.group(invoke_without_command=True, epilog=_EPILOG.format(program()))
    @click.option("--tenant", default=DEFAULT_TENANT, metavar="SLUG", help=f"The tenant it is for [{DEFAULT_TENANT}].")
    @click.option(
        "--role", type=click.Choice([role.value for role in Role]), default="org_admin", help="What the bearer is."
    )
    @click.option("--user", default="admin", metavar="NAME", help="Who it speaks as, its `sub` [admin].")
    @click.option("--scope", "scopes", multiple=True, help="Limit it to this scope; may be repeated.")
    @click.option("--ttl", "ttl_s", type=click.IntRange(1, 366 * 86_400), help="Seconds that it lives [a day].")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @click.pass_context
    def token(
        ctx: click.Context,
        tenant: str,
        role: str,
        user: str,
        scopes: tuple[str, ...],
        ttl_s: int | None,
        as_json: bool,  # noqa: FBT001 - click calls it by name
    ) -> None:
        """Print a bearer token of the embedded issuer.

        It is signed with the installation's own key, so this works only where that key can be read, and not at all
        where tokens come from an external issuer.
        """
        if ctx.invoked_subcommand is not None:
            _refuse_options_before(ctx)
            return
        from dragoman.infra.auth.tokens import Grant  # noqa: PLC0415 - `token --help` needs no cryptography

        view, settings = View(as_json=as_json), settings_or_end()
        if ttl_s is not None and ttl_s > settings.token_max_age_s:
            raise WrongUsage(f"--ttl must be at most {settings.token_max_age_s}, DRAGOMAN_TOKEN_MAX_AGE_S")
        kind = PrincipalType.AGENT if role == Role.AGENT.value else PrincipalType.USER
        made = mint_token(settings, Grant(tenant, user, [role], list(scopes) or None, kind.value), ttl_s=ttl_s)
        _try_it(view, settings, made, tenant)
        if as_json:
            view.json({"token": made, "tenant": tenant, "role": role, "subject": user, "scopes": list(scopes) or None})
        else:
            click.echo(made)

    for command in project_noun("token", "").commands.values():
        token.add_command(command)
    return token


def _refuse_options_before(ctx: click.Context) -> None:
    """`token --tenant acme revoke` would act elsewhere than it says."""
    typed = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if typed:
        raise WrongUsage(f"options of `{ctx.invoked_subcommand}` go after it, not before")


def _try_it(view: View, settings: Settings, token: str, tenant: str) -> None:
    """A mistyped tenant is best found now; with no server to ask, the token is printed all the same."""
    client = Client(server_url(settings), token, trusted_cert=settings.tls_cert)
    try:
        client.call(binding_of("identity.show"), {})
    except Unreachable:
        view.note("note: no server answers, so the tenant was not checked")
    except Refused as error:
        # A token of narrow scope may not ask who it is; one that is not even taken has no tenant to act in.
        if error.problem.get("status") == 401:
            raise Ending(
                f"{client.url} does not accept a token for {tenant!r}: no active tenant of that name, or other keys\n"
                f"See `{program()} tenant list`."
            ) from None
