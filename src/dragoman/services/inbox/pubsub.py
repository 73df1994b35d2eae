"""Google Pub/Sub: a push comes with a token that Google issued to the service account of the subscription."""

from typing import Any, Final, cast

import jwt

from dragoman.errors import InvalidInput, Unauthenticated
from dragoman.infra.auth.tokens import KeySource
from dragoman.jsontext import parse_json
from dragoman.services.inbox.hmac_senders import check_json
from dragoman.services.inbox.ports import Arrival, Delivery, Json
from dragoman.services.inbox.topics import read_meaning

_ISSUERS: Final = ["https://accounts.google.com", "accounts.google.com"]
_ALGORITHM: Final = "RS256"
_LEEWAY_S: Final = 5
_LONGEST_TOKEN: Final = 8_192
_LONGEST_ID: Final = 200


class PubSubSenders:
    """Verifies pushes of Pub/Sub."""

    def __init__(self, keys: KeySource) -> None:
        self._keys = keys

    async def verify(self, delivery: Delivery, settings: Json) -> list[Arrival]:
        """Return the event of a push.

        Raises:
            Unauthenticated: its token is not one of Google's for this audience and this service account.
            UpstreamUnavailable: the keys of Google cannot be had now.
            InvalidInput: it is no message of Pub/Sub.
        """
        scheme, _, token = delivery.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
            raise Unauthenticated("there is no token")
        claims = await self._claims(token, settings["audience"])
        if claims.get("email") != settings["service_account"] or claims.get("email_verified") is not True:
            raise Unauthenticated("the token is that of another service account")
        check_json(delivery.headers)
        payload = parse_json(delivery.body)
        message: Any = cast("Json", payload).get("message") if isinstance(payload, dict) else None
        fields = cast("Json", message) if isinstance(message, dict) else {}
        message_id = fields.get("messageId")
        if not isinstance(message_id, str) or not 0 < len(message_id) <= _LONGEST_ID:
            raise InvalidInput.of("message.messageId", "must be the id of the message")
        meaning = read_meaning("gcp", payload)
        return [Arrival(message_id, meaning.type, meaning.topic, delivery.body)]

    async def _claims(self, token: str, audience: str) -> Json:
        try:
            header = jwt.get_unverified_header(token)
            # The header chooses nothing: there is one algorithm, and keys of others are not taken.
            if header.get("alg") != _ALGORITHM:
                raise Unauthenticated("the token is not signed with RS256")
            key = await self._keys.find(header.get("kid"))
            if key is None or key.algorithm_name != _ALGORITHM:
                raise Unauthenticated("the token is signed by an unknown key")
            return jwt.decode(
                token,
                key,
                algorithms=[_ALGORITHM],
                audience=audience,
                issuer=_ISSUERS,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "aud", "iss"]},
            )
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(f"jwt refused, {error}") from None
        except (ValueError, TypeError, RecursionError):
            raise Unauthenticated("the token cannot be read") from None
