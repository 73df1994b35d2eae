"""Who signs as whom: a certificate names a person as the user record does, never as the request for signatures does."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dragoman.context import Caller
from dragoman.errors import InvalidInput
from dragoman.services.signatures import models as m
from dragoman.services.signatures.errors import NotTheSigner, SignerChanged, SignerNotVerified
from dragoman.services.signatures.ports import People, Person
from dragoman.services.signatures.states import SignerState
from dragoman.services.signatures.store import Record


@dataclass(frozen=True, slots=True)
class Proven:
    """A signer whose name and address were verified, and the facts that show how."""

    name: str
    email: str
    by: m.VerifiedBy
    facts: dict[str, Any]


class Identities:
    """Finds the people that a request names, and proves that a caller is one of them."""

    def __init__(self, people: People) -> None:
        self._people = people

    async def resolve(self, caller: Caller, request: m.PrepareSignature) -> list[Record]:
        """Return the signers as a request keeps them: users with the name and address of their record.

        Raises:
            InvalidInput: no user has the subject, or the user with this subject has another address.
        """
        embedded = request.provider is m.Provider.EMBEDDED
        return [
            await self._resolve(caller, place, signer, embedded=embedded)
            for place, signer in enumerate(request.signers)
        ]

    async def _resolve(self, caller: Caller, place: int, signer: m.Signer, *, embedded: bool) -> Record:
        asked: Record = {
            **signer.model_dump(mode="json"),
            "state": SignerState.PENDING.value,
            "at": None,
            "reason": None,
            "verified_by": None,
            "verified_at": None,
        }
        if not embedded:
            return {**asked, "verified_by": m.VerifiedBy.PROVIDER.value} if _signs(asked) else asked
        person = await self._find(caller, place, signer)
        if person is not None:
            asked |= {"name": person.name, "email": person.email, "subject": person.subject}
        if not _signs(asked):
            return asked
        if person is None:
            return {**asked, "verified_by": m.VerifiedBy.LINK.value}
        verified_at = datetime.now(UTC).isoformat() if person.active else None
        return {**asked, "verified_by": m.VerifiedBy.USER_RECORD.value, "verified_at": verified_at}

    async def _find(self, caller: Caller, place: int, signer: m.Signer) -> Person | None:
        field = f"input.signers.{place}.subject"
        if signer.subject is None:
            return await self._people.find_by_email(caller, signer.email)
        person = await self._people.find(caller, signer.subject)
        if person is None:
            raise InvalidInput.of(field, "no user has this subject: leave it out for people without an account")
        if person.email != signer.email:
            raise InvalidInput.of(field, "the user with this subject has another address than the signer")
        return person

    async def find_address(self, caller: Caller) -> str:
        """Return the address under which the tenant knows the caller; their subject where it knows none."""
        person = await self._people.find(caller, caller.subject)
        return person.email if person is not None else caller.subject.lower()

    async def find_place(self, caller: Caller, row: Record) -> int:
        """Return the caller's place among the signers of a request.

        Raises:
            NotTheSigner: the request does not name them.
        """
        address = await self.find_address(caller)
        places = (at for at, one in enumerate(row["signers"]) if _signs(one) and _is(one, caller, address))
        if (place := next(places, None)) is None:
            raise NotTheSigner
        return place

    async def prove(self, caller: Caller, signer: Record) -> Proven:
        """Return the name and address that the certificate of a signer gets.

        Raises:
            SignerNotVerified: no user record vouches for the caller.
            SignerChanged: the record has another name or address than the request that was approved.
        """
        person = await self._people.find(caller, caller.subject)
        if person is None or not person.active or signer.get("verified_by") == m.VerifiedBy.LINK:
            raise SignerNotVerified
        if (person.name, person.email) != (signer["name"], signer["email"]):
            raise SignerChanged
        facts = {"user_id": str(person.id), "subject": person.subject}
        return Proven(person.name, person.email, m.VerifiedBy.USER_RECORD, facts)


def _signs(signer: Record) -> bool:
    return signer["role"] == m.SignerRole.SIGNER


def _is(signer: Record, caller: Caller, address: str) -> bool:
    if signer["subject"] is not None:
        return signer["subject"] == caller.subject
    return signer["email"] == address
