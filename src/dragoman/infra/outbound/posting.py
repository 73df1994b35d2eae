"""One message to a receiver that a tenant chose: whether it was taken, and what its answer says of another attempt."""

from collections.abc import Mapping

import httpx

from dragoman.backoff import read_retry_after
from dragoman.errors import UpstreamUnavailable
from dragoman.infra.outbound.addresses import OutboundRefused


class NotTaken(Exception):
    """The receiver did not take a message.

    `status` is that of its answer, where there was one, and `wait_s` how long it asks to be left alone. A `forbidden`
    address must not be reached. What does not `count` was not sent.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int | None = None,
        wait_s: float | None = None,
        forbidden: bool = False,
        counts: bool = True,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.wait_s = wait_s
        self.forbidden = forbidden
        self.counts = counts


async def post(client: httpx.AsyncClient, url: str, *, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a message once and return the status of the answer; redirects are not followed.

    Raises:
        NotTaken: there was no answer, or one that is not 2xx.
    """
    try:
        # The body of the answer is not read.
        async with client.stream("POST", url, content=body, headers=headers) as response:
            status, retry_after = response.status_code, response.headers.get("retry-after")
    except OutboundRefused as error:
        raise NotTaken(error.message, forbidden=True) from error
    except UpstreamUnavailable as error:
        raise NotTaken("the receiver has failed too often", wait_s=error.retry_after_s, counts=False) from error
    except httpx.HTTPError as error:
        raise NotTaken(type(error).__name__) from error
    if not 200 <= status < 300:
        raise NotTaken(f"HTTP {status}", status=status, wait_s=read_retry_after(retry_after))
    return status
