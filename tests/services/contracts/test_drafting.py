"""Contracts from templates: typed fields, hostile ones too, and the same PDF for the same fields."""

import json
import re
from datetime import date
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from dragoman.context import TenantId
from dragoman.errors import TimedOut
from dragoman.services.contracts.drafting import DraftDocument, MutualNdaFields, draft
from dragoman.services.contracts.errors import Unprintable
from dragoman.services.contracts.media import check_content
from dragoman.services.contracts.models import MediaType
from dragoman.services.contracts.prose import BlockKind, read_markdown, write_markdown
from dragoman.services.contracts.typesetting import Typesetter, count_pages, plain

pytestmark = pytest.mark.anyio
TENANT = TenantId(UUID(int=1))
NDA: dict[str, Any] = {
    "party_a": "Acme Ltd.", "party_b": "Globex GmbH", "effective_date": "2027-01-15", "term_months": 24,
    "governing_law": "England and Wales",
}  # fmt: skip
SERVICES: dict[str, Any] = {
    "client": "Acme Ltd.", "provider": "Globex GmbH", "scope": "A test of the walls.\nA report.", "fee": 12500,
    "currency": "EUR", "start_date": "2027-02-01", "governing_law": "Germany",
}  # fmt: skip
# What would be code, a mark or a way out, if anybody read it as such.
HOSTILE = (
    "#panic()", '#read("/etc/passwd")', '#import "@preview/cetz:0.3.0"', "$x$", "*bold*", "_it_", "`raw`", "<label>",
    "@ref", "\\u{41}", '"]; #sys', "#sys.inputs", "// comment", "= heading", "{party_b}", "{{x}}", "%s %n", "</script>",
)  # fmt: skip


def asked(template: str, fields: Any) -> DraftDocument:
    return DraftDocument.model_validate_json(json.dumps({"template": template, "fields": fields}), strict=True)


def complaints(template: str, fields: Any) -> set[str]:
    with pytest.raises(ValidationError) as caught:
        asked(template, fields)
    return {".".join(map(str, one["loc"])) for one in caught.value.errors()}


async def test_the_fields_stand_where_they_belong() -> None:
    nda, services = draft(asked("mutual-nda", NDA)), draft(asked("services-agreement", SERVICES))

    written, offered = write_markdown(nda.blocks), write_markdown(services.blocks)
    assert "between **Acme Ltd.** and **Globex GmbH**" in written
    assert "takes effect on **15 January 2027**" in written
    assert "runs for **24 months** from" in written
    assert written.endswith("> Acme Ltd.\n\n> Globex GmbH\n")
    assert "a fee of **EUR 12,500.00** for" in offered
    assert "A test of the walls.\n\nA report.\n" in offered
    assert nda.title == "Mutual Non-Disclosure Agreement: Acme Ltd. and Globex GmbH"
    assert re.findall(r"\{\w+\}", written + offered) == []


async def test_everything_that_is_wrong_is_said_at_once() -> None:
    wrong = {"party_a": "", "effective_date": "tomorrow", "term_months": "24", "law": "x"}

    assert complaints("mutual-nda", wrong) == {
        "fields.party_a", "fields.party_b", "fields.effective_date", "fields.term_months", "fields.governing_law",
        "fields.law",
    }  # fmt: skip
    assert complaints("services-agreement", SERVICES | {"fee": -1, "currency": "euro", "scope": " "}) == {
        "fields.fee", "fields.currency", "fields.scope",
    }  # fmt: skip
    assert complaints("mutual-nda", NDA | {"party_b": "ACME Ltd."}) == {"fields"}
    assert complaints("no-such", NDA) == {"template"}
    assert complaints("mutual-nda", [1]) == {"fields"}


@pytest.mark.parametrize("fee", ["0.001", 1e20, "NaN", "12,50", None, True])
async def test_what_is_no_amount_is_refused(fee: Any) -> None:
    assert complaints("services-agreement", SERVICES | {"fee": fee}) == {"fields.fee"}


async def test_the_same_fields_give_the_same_bytes_and_a_pdf() -> None:
    made = draft(asked("mutual-nda", NDA))
    setter = Typesetter()

    one, other = [await setter.typeset(plain(made.blocks), tenant=TENANT, title=made.title) for _ in range(2)]

    assert one == other
    check_content(one, MediaType.PDF)
    assert count_pages(one) == 2


async def test_what_a_field_says_is_never_code_and_never_a_clause() -> None:
    scope = "\n".join((*HOSTILE, "## 99. A clause of one's own", "> Signed by nobody", "- an item"))
    given = SERVICES | {"client": " ".join(HOSTILE)[:190], "scope": scope}
    plainly, hostile = draft(asked("services-agreement", SERVICES)), draft(asked("services-agreement", given))

    pdf = await Typesetter().typeset(plain(hostile.blocks), tenant=TENANT, title=hostile.title)

    def outline(blocks: Any) -> list[str]:
        return [one.text for one in blocks if one.kind in (BlockKind.TITLE, BlockKind.HEADING)]

    assert outline(hostile.blocks) == outline(plainly.blocks)
    texts = [block.text for block in hostile.blocks]
    assert all(line in texts for line in scope.split("\n"))
    assert sum(one.kind is BlockKind.SIGNATURE for one in hostile.blocks) == 2
    assert read_markdown(write_markdown(hostile.blocks)) == hostile.blocks
    check_content(pdf, MediaType.PDF)


async def test_a_contract_with_gaps_is_not_made() -> None:
    with pytest.raises(Unprintable) as caught:
        await Typesetter().typeset(plain(read_markdown("Tengwar: \ue000\U000f0000")), tenant=TENANT, title="x")

    assert caught.value.details["text"]


async def test_setting_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimedOut):
        await Typesetter(timeout_s=0.001).typeset(plain(read_markdown("Hello")), tenant=TENANT, title="x")


async def test_a_day_is_a_day() -> None:
    assert isinstance(asked("mutual-nda", NDA).fields, MutualNdaFields)
    assert asked("mutual-nda", NDA).model_dump(mode="json")["fields"] == NDA
    assert asked("mutual-nda", NDA | {"effective_date": "2028-02-29"}).fields.words()["effective_date"] == (
        f"29 February {date(2028, 2, 29).year}"
    )
