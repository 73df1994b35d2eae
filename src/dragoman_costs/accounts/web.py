"""An export that is one file by https."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx

from dragoman_costs.accounts.models import AccountConfig, CredentialStatus
from dragoman_costs.accounts.secret import WebSecret
from dragoman_costs.accounts.sources import Answer, ExportFile, ExportProblem, asking

_NO_HEAD: Final = (HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class WebFileSource:
    """One file, opened by a bearer token, by the query of a signed address, or by nothing."""

    def __init__(
        self, clients: tuple[httpx.AsyncClient, httpx.AsyncClient], config: AccountConfig, secret: WebSecret
    ) -> None:
        self._asking, self._reading = clients
        url = config.export_url or ""
        self._name = unquote(urlsplit(url).path.rpartition("/")[2]) or "export"
        self._url = f"{url}?{secret.query}" if secret.query is not None else url
        self._secret = secret
        self._headers = {"authorization": f"Bearer {secret.bearer_token}"} if secret.bearer_token is not None else {}

    async def list_page(self, after: str | None) -> tuple[list[ExportFile], str | None]:
        """Return the one file.

        Raises:
            ExportProblem: it cannot be read.
        """
        del after
        # A signed address is good for one method.
        methods = ("GET",) if self._secret.query is not None else ("HEAD", "GET")
        for method in methods:
            async with asking(self._asking, method, self._url, self._headers) as answer:
                if method == "HEAD" and answer.status in _NO_HEAD:
                    continue
                self._check(answer)
                return [_file(self._name, answer)], None
        raise ExportProblem("the host of the exports answers to neither HEAD nor GET")

    @asynccontextmanager
    async def open(self, name: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the content of the file.

        Raises:
            ExportProblem: it cannot be read.
        """
        del name
        async with asking(self._reading, "GET", self._url, self._headers) as answer:
            self._check(answer)
            yield answer.pieces()

    def _check(self, answer: Answer) -> None:
        status = answer.status
        if status == HTTPStatus.OK:
            return
        if status in _REFUSED:
            known = self._secret.bearer_token is not None or self._secret.query is not None
            raise ExportProblem(
                f"the host of the exports refuses {'the credential' if known else 'to answer without a credential'} "
                f"(status {status})",
                credential=CredentialStatus.ERROR if known else CredentialStatus.MISSING,
            )
        if answer.headers.get("location") and 300 <= status < 400:
            raise ExportProblem("the host of the exports redirects: set export_url to the address that it leads to")
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise ExportProblem(f"there is no file at export_url (status {status})")
        passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
        raise ExportProblem(f"the host of the exports answers with status {status}", passing=passing)


def _file(name: str, answer: Answer) -> ExportFile:
    size = answer.headers.get("content-length", "")
    version = answer.headers.get("etag") or answer.headers.get("last-modified")
    return ExportFile(name, version[:200] if version else None, int(size) if size.isdecimal() else None)
