"""Signatures of cards, verified as a stranger does: by the official SDK, with the key that the card points to."""

import base64
import json
from typing import Any

import httpx
from a2a.types import a2a_pb2
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import ParseDict
from jwt import PyJWK

from tests.patience import PATIENCE_S


def verify(card: dict[str, Any]) -> dict[str, Any]:
    """The head of its one signature, once that is found to be right.

    Raises:
        InvalidSignaturesError: it is not.
    """

    def key(kid: str | None, jku: str | None) -> PyJWK:
        keys = httpx.get(jku or "", timeout=PATIENCE_S).json()["keys"]
        return PyJWK(next(one for one in keys if one["kid"] == kid))

    create_signature_verifier(key, ["ES256"])(ParseDict(card, a2a_pb2.AgentCard()))
    [signature] = card["signatures"]
    return json.loads(base64.urlsafe_b64decode(signature["protected"] + "=="))
