"""What a person sees when the server is up: where it is, a token, and what to try next."""

import json
import sys
import threading
from importlib.util import find_spec

from rich.text import Text

from dragoman import __version__
from dragoman.doors.cli.client_key import client_key
from dragoman.doors.cli.endings import Ending
from dragoman.doors.cli.program import typed_program
from dragoman.doors.cli.session import mint_token
from dragoman.doors.cli.views import View
from dragoman.infra.auth.tokens import Grant
from dragoman.infra.config import Settings, default_data_dir

_TENANT = "demo"


def announce_server(settings: Settings, url: str) -> None:
    """Print addresses, commands to try and, on a terminal of this machine, a token to paste.

    It asks the server for a key, so it runs beside the thread that serves. Every line can be copied whole.
    """
    threading.Thread(target=_announce, args=(settings, url), name="banner", daemon=True).start()


def _announce(settings: Settings, url: str) -> None:
    out = View().out
    private = sys.stdout.isatty() and settings.is_loopback and not settings.external_issuer
    # Asked for before anything is printed: the log of the request would stand in the middle.
    snippet = _private_snippet(settings, url) if private and find_spec("mcp") is not None else ""
    out.print(Text.assemble(("\nDragoman ", "bold"), f"{__version__} is ready at ", (url, "bold cyan"), "\n"))
    for name, value in (
        ("API docs", f"{url}/docs"),
        ("health", f"{url}/health"),
        ("metrics", f"{url}/metrics"),
        ("data", str(settings.data_dir)),
    ):
        out.print(Text.assemble((f"  {name:<10}", "dim"), value))
    if settings.external_issuer:
        out.print(Text.assemble((f"  {'tokens':<10}", "dim"), f"come from {settings.issuer or settings.jwks_url}"))
    elif private:
        _offer_token(settings, url)
        out.print(snippet)
    else:
        # What is written to a file or a collector of logs is read by others, and a server for others has its own users.
        _say_how(settings, url)
    out.print(Text("\nCtrl-C stops it.\n", style="dim"))


def _offer_token(settings: Settings, url: str) -> None:
    out = View().out
    token = mint_token(settings, Grant(_TENANT, "admin", ["super_admin"]))
    out.print(f"\nA token for the tenant {_TENANT}, good for {_duration(settings.token_ttl_s)}:\n")
    if settings.data_dir != default_data_dir():
        # Elsewhere the command line would not find the note that says where this server is.
        out.print(Text(f"export DRAGOMAN_URL={url}", style="green"))
    out.print(Text(f"export DRAGOMAN_TOKEN={token}", style="green"))
    out.print("\nTry, in another terminal:\n")
    for line in (
        f'curl -H "Authorization: Bearer $DRAGOMAN_TOKEN" {url}/api/me',
        f"{typed_program()} tenant create --name 'Acme Corporation' --slug acme",
        f"{typed_program()} audit verify",
    ):
        out.print(Text(f"  {line}", style="cyan"))


def _private_snippet(settings: Settings, url: str) -> Text:
    try:
        key = client_key(settings, url, _TENANT)
    except (Ending, OSError) as error:
        return Text(f"\nNo key for MCP clients could be made: {error}")
    return Text.assemble("\nFor an MCP client, with a key of role agent:\n\n", (f"  {_snippet(url, key)}", "cyan"))


def _say_how(settings: Settings, url: str) -> None:
    out = View().out
    out.print("\nNo credential is printed here. As the user of this server:\n")
    if settings.data_dir != default_data_dir():
        out.print(Text(f"  export DRAGOMAN_DATA_DIR={settings.data_dir} DRAGOMAN_URL={url}", style="cyan"))
    for line in (
        f"export DRAGOMAN_TOKEN=$({typed_program()} token --tenant {_TENANT} --role org_admin)",
        f"{typed_program()} key create --name mcp-client --principal-type agent --role agent",
    ):
        out.print(Text(f"  {line}", style="cyan"))
    if find_spec("mcp") is not None:
        out.print("\nFor an MCP client, with that key:\n")
        out.print(Text(f"  {_snippet(url, '<key>')}", style="cyan"))


def _snippet(url: str, key: str) -> str:
    """Return the configuration that MCP clients take."""
    server = {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {key}"}}
    return json.dumps({"mcpServers": {"dragoman": server}})


def _duration(seconds: int) -> str:
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % size == 0:
            count = seconds // size
            return f"a {name}".replace("a hour", "an hour") if count == 1 else f"{count} {name}s"
    return f"{seconds} seconds"


def announce_worker(settings: Settings, _: str) -> None:
    """A worker has no address."""
    View().out.print(f"Dragoman {__version__} worker is running (keys in {settings.secrets_path})")
