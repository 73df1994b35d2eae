"""What a person sees when the server is up: where it is, a token, and what to try next."""

import sys

from rich.console import Console
from rich.text import Text

from dragoman import __version__
from dragoman.doors.cli.client import mint_token
from dragoman.infra.auth.tokens import Grant
from dragoman.infra.config import Settings


def announce_server(settings: Settings, url: str) -> None:
    """Addresses, a token to paste, three commands to try. Programs that read the log see one line of it."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text.assemble(("Dragoman ", "bold"), f"{__version__} is ready at ", (url, "bold cyan")))
    for name, path in (("API docs", "/docs"), ("health", "/health"), ("metrics", "/metrics")):
        console.print(Text.assemble(("  " + name.ljust(10), "dim"), url + path))
    if settings.external_issuer:
        console.print(Text.assemble(("  tokens    ", "dim"), f"come from {settings.issuer or settings.jwks_url}"))
        return
    token = mint_token(settings, Grant("demo", "admin", ["super_admin"]))
    console.print("\nA token for the demo tenant, good for a day:\n")
    console.print(Text(f"export DRAGOMAN_TOKEN={token}", style="green"))
    console.print("\nTry, in another terminal:\n")
    program = ".venv/bin/dragoman" if ".venv" in sys.argv[0] else "dragoman"
    for line in (
        f'curl -H "Authorization: Bearer $DRAGOMAN_TOKEN" {url}/api/me',
        f"{program} tenant create --name 'Acme Corporation' --slug acme",
        f"{program} audit verify",
    ):
        console.print(Text("  " + line, style="cyan"))
    console.print(Text("\nCtrl-C stops it.\n", style="dim"))


def announce_worker(settings: Settings, _: str) -> None:
    """A worker has no address."""
    Console(highlight=False).print(f"Dragoman {__version__} worker is running (data in {settings.data_dir})")
