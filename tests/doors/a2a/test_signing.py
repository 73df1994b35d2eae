"""Signed cards, verified as a stranger does: by the official SDK, with the key that the card points to."""

from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from google.protobuf.json_format import ParseDict
from jwt import PyJWK

from tests.doors.a2a.calling import A2A
from tests.harness import Server

CARD = "/.well-known/agent-card.json"


def _verify(card: dict[str, Any]) -> None:
    def key(kid: str | None, jku: str | None) -> PyJWK:
        keys = httpx.get(jku or "").json()["keys"]
        return PyJWK(next(one for one in keys if one["kid"] == kid))

    create_signature_verifier(key, ["ES256"])(ParseDict(card, a2a_pb2.AgentCard()))


def test_the_cards_are_signed_with_the_key_that_they_name(served: Server, a2a: A2A) -> None:
    _verify(a2a.http.get(CARD).json())
    _verify(a2a.call("GetExtendedAgentCard", {}))


@pytest.mark.parametrize("change", [{"name": "Another"}, {"description": "Trust me."}, {"skills": []}])
def test_a_changed_card_fails(a2a: A2A, change: dict[str, Any]) -> None:
    card = a2a.http.get(CARD).json()

    with pytest.raises(InvalidSignaturesError):
        _verify(card | change)


def test_a_signature_does_not_change_the_etag_of_the_same_card(served: Server, a2a: A2A) -> None:
    first = a2a.http.get(CARD)
    for number in range(100):  # more than are kept
        a2a.http.get(CARD, headers={"host": f"agents-{number}.example"})
    again = a2a.http.get(CARD)

    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    assert a2a.http.get(CARD, headers={"if-none-match": first.headers["etag"]}).status_code == 304
