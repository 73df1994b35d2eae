"""A server that speaks gRPC starts programs while calls are under way: typesetting, embeddings, its own PostgreSQL."""

import json
import subprocess
import sys

from tests.patience import PATIENCE_S

# As a process of its own: what gRPC does at a fork is decided once for a process, when it is loaded.
STARTS = """
import asyncio, json, uvloop
import dragoman.infra.edge.grpc
import grpc

class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        async def echo(request, context):
            return request
        return grpc.unary_unary_rpc_method_handler(echo)

async def main():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    statuses = set()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call, over = channel.unary_unary("/a/b"), asyncio.Event()
        async def calls():
            while not over.is_set():
                await call(b"x")
        callers = [asyncio.create_task(calls()) for _ in range(4)]
        for _ in range(300):
            program = await asyncio.create_subprocess_exec("true", stdin=asyncio.subprocess.PIPE)
            statuses.add(await program.wait())
        over.set()
        await asyncio.gather(*callers)
    await server.stop(None)
    print(json.dumps(sorted(statuses)))

uvloop.run(main())
"""


def test_programs_that_are_started_during_calls_do_not_crash() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )

    assert json.loads(done.stdout) == [0]
