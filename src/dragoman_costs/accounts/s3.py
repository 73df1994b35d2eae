"""Exports in a bucket: the part of the protocol of S3 that lists and reads.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

import httpx

from dragoman_costs.accounts.addresses import read_bucket
from dragoman_costs.accounts.models import AccountConfig, CredentialStatus
from dragoman_costs.accounts.sigv4 import AwsKey, Signer, encode_path, encode_query
from dragoman_costs.accounts.sources import Answer, ExportFile, ExportProblem, asking

_PAGE: Final = "500"
_EXPORTS: Final = (".csv", ".csv.gz", ".parquet")
_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")
_BAD: Final = CredentialStatus.ERROR
_REFUSALS: Final[dict[str, tuple[str, CredentialStatus | None]]] = {
    "InvalidAccessKeyId": ("the store does not know the access key", _BAD),
    "SignatureDoesNotMatch": ("the secret access key does not fit the access key", _BAD),
    "AccessDenied": ("the access key may not list or read here: it needs s3:ListBucket and s3:GetObject", _BAD),
    "AllAccessDisabled": ("the bucket is closed", _BAD),
    "ExpiredToken": ("the temporary credential has expired", CredentialStatus.EXPIRED),
    "InvalidToken": ("the session token is not valid", _BAD),
    "TokenRefreshRequired": ("the temporary credential must be renewed", CredentialStatus.EXPIRED),
    "RequestTimeTooSkewed": ("the clock of this server differs from that of the store", None),
    "NoSuchBucket": ("there is no such bucket", None),
    "NoSuchKey": ("there is no such file any more", None),
    "AuthorizationHeaderMalformed": ("the bucket is in another region: set config.region", None),
    "PermanentRedirect": ("the bucket is in another region: set config.region", None),
}


class BucketSource:
    """The exports below a prefix of a bucket."""

    def __init__(
        self,
        clients: tuple[httpx.AsyncClient, httpx.AsyncClient],
        config: AccountConfig,
        key: AwsKey,
        *,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._listing, self._reading = clients
        self._bucket = read_bucket(config.export_url or "")
        region = config.region or "us-east-1"
        self._signer = Signer(key, region)
        self._origin = _origin(self._bucket.name, config.endpoint, region)
        self._clock = clock or (lambda: datetime.now(UTC))

    async def list_page(self, after: str | None) -> tuple[list[ExportFile], str | None]:
        """Return the exports of one page of the listing, and where to go on.

        Raises:
            ExportProblem: the bucket cannot be listed.
        """
        query = {"list-type": "2", "prefix": self._bucket.prefix, "max-keys": _PAGE, "encoding-type": "url"}
        if after is not None:
            query["continuation-token"] = after
        async with self._ask(self._listing, f"{self._origin}/?{encode_query(query)}") as answer:
            return _read_listing(await answer.read())

    @asynccontextmanager
    async def open(self, name: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the content of a file.

        Raises:
            ExportProblem: it cannot be read.
        """
        async with self._ask(self._reading, f"{self._origin}/{encode_path(name)}") as answer:
            yield answer.pieces()

    @asynccontextmanager
    async def _ask(self, client: httpx.AsyncClient, url: str) -> AsyncGenerator[Answer]:
        headers = self._signer.sign("GET", url, {}, now=self._clock())
        async with asking(client, "GET", url, headers) as answer:
            if answer.status != HTTPStatus.OK:
                raise await _problem(answer)
            yield answer


def _origin(bucket: str, endpoint: str | None, region: str) -> str:
    if endpoint is not None:
        return f"{endpoint}/{bucket}"
    # The certificate of AWS is for one label before `s3`.
    return (
        f"https://s3.{region}.amazonaws.com/{bucket}"
        if "." in bucket
        else f"https://{bucket}.s3.{region}.amazonaws.com"
    )


async def _problem(answer: Answer) -> ExportProblem:
    found = _CODE.search(await answer.read_error())
    code = found.group(1).decode() if found else ""
    region = answer.headers.get("x-amz-bucket-region", "")
    if code in _REFUSALS:
        message, credential = _REFUSALS[code]
        if "region" in message and _REGION.fullmatch(region):
            message = f"the bucket is in the region {region}: set config.region"
        return ExportProblem(f"{message} ({code})", credential=credential)
    passing = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS
    refused = answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return ExportProblem(
        f"the store answers with status {answer.status}{f' ({code})' if code else ''}",
        credential=_BAD if refused else None,
        passing=passing,
    )


def _read_listing(body: bytes) -> tuple[list[ExportFile], str | None]:
    # A listing declares no types: what does is made to be large once it is read.
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ExportProblem("the answer of the store is not a listing of S3")
    try:
        root = ET.fromstring(body)  # noqa: S314 - no entities, and at most a megabyte
    except ET.ParseError:
        raise ExportProblem("the answer of the store is not a listing of S3") from None
    if _local(root.tag) != "ListBucketResult":
        raise ExportProblem("the answer of the store is not a listing of S3")
    fields = {_local(child.tag): child.text or "" for child in root}
    files = [file for child in root if _local(child.tag) == "Contents" and (file := _read_file(child)) is not None]
    after = fields.get("NextContinuationToken")
    return files, after if after and fields.get("IsTruncated") == "true" else None


def _read_file(element: ET.Element) -> ExportFile | None:
    """Return a file, or None for what is no export and for names that an address cannot carry."""
    fields = {_local(child.tag): child.text or "" for child in element}
    name, etag, size = unquote_plus(fields.get("Key", "")), fields.get("ETag", "").strip('"'), fields.get("Size", "")
    if not name.lower().endswith(_EXPORTS) or {".", ".."} & set(name.split("/")):
        return None
    return ExportFile(name, etag or None, int(size) if size.isdecimal() else None)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
