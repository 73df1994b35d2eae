from typing import Any

import pytest
from a2a.utils.signing import InvalidSignaturesError

from tests.doors.a2a.calling import A2A
from tests.doors.a2a.signatures import verify
from tests.harness import Server

pytestmark = pytest.mark.sdk
CARD = "/.well-known/agent-card.json"


def test_the_cards_are_signed_with_the_key_that_they_name(served: Server, a2a: A2A) -> None:
    verify(a2a.http.get(CARD).json())
    verify(a2a.call("GetExtendedAgentCard", {}))


@pytest.mark.parametrize("change", [{"name": "Another"}, {"description": "Trust me."}, {"skills": []}])
def test_a_changed_card_fails(a2a: A2A, change: dict[str, Any]) -> None:
    card = a2a.http.get(CARD).json()

    with pytest.raises(InvalidSignaturesError):
        verify(card | change)


def test_a_signature_does_not_change_the_etag_of_the_same_card(served: Server, a2a: A2A) -> None:
    first = a2a.http.get(CARD)
    for number in range(100):  # more than are kept
        a2a.http.get(CARD, headers={"host": f"agents-{number}.example"})
    again = a2a.http.get(CARD)

    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    assert a2a.http.get(CARD, headers={"if-none-match": first.headers["etag"]}).status_code == 304
