"""`dragoman mcp`: for clients that start a program and talk to it over its pipes."""

import json
import time

import rich_click as click

from dragoman.doors.cli.program import Programs, program
from dragoman.doors.cli.session import DEFAULT_TENANT, KEYBOARD_TTL_S, Asked, credential, server_url, settings_or_end


def mcp_command(programs: Programs) -> click.Command:
    """The command."""
    client = {"mcpServers": {"dragoman": {"command": program(), "args": ["mcp"]}}}

    @click.command("mcp", epilog=f"Example: in a client's configuration, {json.dumps(client)}")
    @click.option("--tenant", "as_tenant", metavar="SLUG", help=f"Act in this tenant [{DEFAULT_TENANT}].")
    def mcp(as_tenant: str | None) -> None:
        """Serve MCP on standard input and output.

        Every message goes to the running server (DRAGOMAN_URL, else the one of this machine) as the bearer of
        DRAGOMAN_TOKEN, else as the person at the keyboard.
        """
        settings = settings_or_end()
        asked = Asked(tenant=as_tenant)
        made_at, token = time.monotonic(), credential(settings, asked)

        def fresh_token() -> str:
            nonlocal made_at, token
            # A client may stay for days; a token of the keyboard's does not.
            if time.monotonic() - made_at > KEYBOARD_TTL_S / 2:
                made_at, token = time.monotonic(), credential(settings, asked)
            return token

        programs.bridge(server_url(settings), fresh_token, settings.tls_cert)

    return mcp
