"""A reverse proxy as it stands before servers: it terminates TLS, and hands on who its client is.

It speaks enough HTTP/1.1 for that: one request on a connection, with a body of a length.
"""

import asyncio
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import quote, urlsplit

from dragoman.infra.private_authority import Issued
from tests.patience import PATIENCE_S

HEADER = "x-client-cert"


@contextmanager
def tls_proxy(to: str, *, shown: Issued, client_ca: str, replaces: bool = True) -> Generator[str]:
    """Give the address of a proxy before the server at `to`; one that does not replace the header adds its own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(shown.certificate, shown.key)
    upstream = urlsplit(to)
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        with suppress(OSError, asyncio.IncompleteReadError):
            line, *headers = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n").split(b"\r\n")
            body = await reader.readexactly(_length(headers))
            dropped = (b"connection:", f"{HEADER}:".encode() if replaces else b"connection:")
            headers = [one for one in headers if not one.lower().startswith(dropped)]
            if certificate:
                headers.append(f"{HEADER}: {quote(ssl.DER_cert_to_PEM_cert(certificate), safe='')}".encode())
            headers += [b"x-forwarded-proto: https", b"connection: close"]
            inward, outward = await asyncio.open_connection(upstream.hostname, upstream.port)
            outward.write(b"\r\n".join((line, *headers, b"", body)))
            writer.write(await inward.read())
            await writer.drain()
            outward.close()
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _length(headers: list[bytes]) -> int:
    return next((int(one.partition(b":")[2]) for one in headers if one.lower().startswith(b"content-length:")), 0)


async def _end(server: asyncio.Server) -> None:
    server.close()
    here = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not here]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
