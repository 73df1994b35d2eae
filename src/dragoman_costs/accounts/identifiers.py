"""How each provider names what it bills."""

import re
from enum import StrEnum
from typing import Final


class Provider(StrEnum):
    """Who runs the cloud."""

    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"
    KUBERNETES = "kubernetes"


_FORMS: Final = {
    Provider.AWS: re.compile(r"[0-9]{12}"),
    Provider.AZURE: re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Provider.GCP: re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9A-F]{6}(-[0-9A-F]{6}){2}"),
    Provider.KUBERNETES: re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"),
}
_EXPECTED: Final = {
    Provider.AWS: "the 12 digits of an AWS account, such as 123456789012",
    Provider.AZURE: "the id of an Azure subscription, such as 3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    Provider.GCP: "the id of a Google Cloud project, such as acme-prod, or of a billing account: 01ABCD-234567-89EF01",
    Provider.KUBERNETES: "the name of a cluster as a DNS label: a-z, 0-9 and hyphens inside, at most 63 characters",
}


def read_identifier(provider: Provider, identifier: str) -> str:
    """Return an identifier in the one form in which it is kept.

    Raises:
        ValueError: the provider does not name accounts like this; the message says how it does.
    """
    text = identifier.strip()
    if provider is Provider.AZURE:
        text = text.lower()
    if _FORMS[provider].fullmatch(text) is None:
        raise ValueError(f"must be {_EXPECTED[provider]}{_hint(provider, text)}")
    return text


def _hint(provider: Provider, text: str) -> str:
    """Name the provider that it looks like; names of clusters look like anything."""
    for other in (Provider.AWS, Provider.AZURE, Provider.GCP):
        if other is not provider and _FORMS[other].fullmatch(text.lower() if other is Provider.AZURE else text):
            return f". This looks like an identifier of the provider {other.value}"
    return ""
