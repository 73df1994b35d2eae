"""Contracts from templates: the wording is ours, the fields are the caller's and stay data wherever they stand."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializeAsAny,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import to_json

from dragoman.operations import Input
from dragoman.services.contracts.prose import Block, BlockKind, Blocks, Run, block_of, read_markdown
from dragoman.text import Name, Text

_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_LONGEST_SCOPE: Final = 20_000
_EARLIEST, _LATEST = date(1900, 1, 1), date(2200, 1, 1)


class TemplateId(StrEnum):
    """A template that comes with the server."""

    MUTUAL_NDA = "mutual-nda"
    SERVICES_AGREEMENT = "services-agreement"


class TemplateFields(Input):
    """What a template is filled with."""

    @property
    def parties(self) -> tuple[str, ...]:
        """Between whom it is."""
        return ()

    def words(self) -> dict[str, str]:
        """Every field as it is to be read."""
        return {name: _in_words(getattr(self, name)) for name in type(self).model_fields}


def _in_words(value: object) -> str:
    return f"{value.day} {value:%B %Y}" if isinstance(value, date) else str(value)


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Day = Annotated[date, Field(ge=_EARLIEST, le=_LATEST)]
Scope = Annotated[Text, StringConstraints(min_length=1, max_length=_LONGEST_SCOPE), AfterValidator(_filled)]


class MutualNdaFields(TemplateFields):
    """Two parties who keep each other's secrets."""

    party_a: Name = Field(description="The one party, as it is to stand in the contract.", examples=["Acme Ltd."])
    party_b: Name = Field(description="The other party.", examples=["Globex GmbH"])
    effective_date: Day = Field(description="From when on it holds.", examples=["2027-01-15"])
    term_months: int = Field(ge=1, le=600, description="For how many months.", examples=[24])
    governing_law: Name = Field(description="Whose laws govern it.", examples=["England and Wales"])

    @property
    def parties(self) -> tuple[str, ...]:
        """Between whom it is."""
        return self.party_a, self.party_b

    def words(self) -> dict[str, str]:
        """The term with its unit."""
        return super().words() | {"term_months": "1 month" if self.term_months == 1 else f"{self.term_months} months"}

    @model_validator(mode="after")
    def _two(self) -> Self:
        if self.party_a.casefold() == self.party_b.casefold():
            raise ValueError("party_a and party_b are the same")
        return self


class ServicesAgreementFields(TemplateFields):
    """A provider who works for a client."""

    client: Name = Field(description="Who has the work done.", examples=["Acme Ltd."])
    provider: Name = Field(description="Who does the work.", examples=["Globex GmbH"])
    scope: Scope = Field(description="What is to be done; each line is a paragraph.", examples=["Penetration test."])
    fee: Decimal = Field(
        ge=0, max_digits=15, decimal_places=2, allow_inf_nan=False, description="What is paid for it.", examples=[12500]
    )
    currency: str = Field(pattern=r"^[A-Z]{3}$", description="Three letters, as in ISO 4217.", examples=["EUR"])
    start_date: Day = Field(description="When the work begins.", examples=["2027-02-01"])
    governing_law: Name = Field(description="Whose laws govern it.", examples=["Germany"])

    @property
    def parties(self) -> tuple[str, ...]:
        """Between whom it is."""
        return self.client, self.provider

    def words(self) -> dict[str, str]:
        """The fee with its currency."""
        return super().words() | {"fee": f"{self.currency} {self.fee:,.2f}"}


FIELDS: Final[Mapping[TemplateId, type[TemplateFields]]] = {
    TemplateId.MUTUAL_NDA: MutualNdaFields,
    TemplateId.SERVICES_AGREEMENT: ServicesAgreementFields,
}


class DraftDocument(Input):
    """Draft a contract from a template."""

    template: TemplateId
    fields: Annotated[
        SerializeAsAny[TemplateFields],
        WithJsonSchema({"type": "object", "description": "What the template takes; `template.list` has the schemas."}),
    ]
    title: Name | None = Field(None, description="What people call the document; made of the parties when unset.")

    @field_validator("fields", mode="before")
    @classmethod
    def _typed(cls, given: Any, info: ValidationInfo) -> Any:
        """Fields by the model of the template, each complaint at its own field."""
        template = info.data.get("template")
        if template is None:
            # It is refused for that already; which fields it should have nobody can tell.
            return TemplateFields()
        if isinstance(given, TemplateFields):
            return given
        return FIELDS[template].model_validate_json(to_json(given), strict=True)


@dataclass(frozen=True, slots=True)
class Draft:
    """A contract in words."""

    title: str
    blocks: Blocks


def draft(given: DraftDocument) -> Draft:
    """The contract that the template gives with these fields; the same for the same fields."""
    blocks = tuple(_fill(_wording(given.template), given.fields.words()))
    title = given.title or f"{blocks[0].text}: {' and '.join(given.fields.parties)}"[:200]
    return Draft(title, blocks)


def title_of(template: TemplateId) -> str:
    """What stands above it."""
    return _wording(template)[0].text


@cache
def _wording(template: TemplateId) -> Blocks:
    files = resources.files("dragoman.services.contracts").joinpath("templates")
    return read_markdown(files.joinpath(f"{template.value}.md").read_text(encoding="utf-8"))


def _fill(wording: Blocks, values: Mapping[str, str]) -> Iterator[Block]:
    """The wording with the values in it. A value is put in after the marks were read, so it has none."""
    for block in wording:
        lines: list[list[Run]] = [[]]
        for run in block.runs:
            for text, strong in _parts(run, values):
                first, *more = text.split("\n")
                lines[-1].append(Run(first, strong))
                lines += [[Run(line, strong)] for line in more]
        yield from _kept(block.kind, lines)


def _parts(run: Run, values: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    for number, part in enumerate(_PLACE.split(run.text)):
        yield (values[part] if number % 2 else part), run.strong


def _kept(kind: BlockKind, lines: Iterable[list[Run]]) -> Iterator[Block]:
    for runs in lines:
        if (block := block_of(kind, runs)) is not None:
            yield block
