"""What our figures stand beside: Starlette that gives a body back, under the same server with the same settings."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def echo(request: Request) -> Response:
    """The body that came, or a small one."""
    return Response(await request.body() or b'{"ok":true}', media_type="application/json")


class Echo:
    """A server process that only echoes; `module` may name another one that prints its port first."""

    def __init__(
        self, module: str = "bench.echo", *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """Of the server."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=self._environment)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)


def listen_and_serve(app: object, *, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve on a free port and print it; uvloop, httptools, one process, no access log, as ours."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType] - any ASGI application
        loop="uvloop",
        http="httptools",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    listen_and_serve(Starlette(routes=[Route("/echo", echo, methods=["GET", "POST"])]))
