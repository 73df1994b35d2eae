"""Which templates there are, and what each takes."""

from typing import Any

from pydantic import Field

from dragoman.context import Caller
from dragoman.operations import Input, Output, Page
from dragoman.services.contracts.drafting import FIELDS, TemplateId, title_of


class ListTemplates(Input):
    """All of them."""


class TemplateView(Output):
    """A template."""

    template: TemplateId
    title: str
    summary: str
    fields: dict[str, Any] = Field(description="A JSON schema of what it is filled with.")


async def list_templates(caller: Caller, wanted: ListTemplates) -> Page[TemplateView]:
    """The templates that come with the server; they are the same for everybody."""
    del caller, wanted
    shown = [
        TemplateView(
            template=template,
            title=title_of(template),
            summary=(fields.__doc__ or "").strip(),
            fields=fields.model_json_schema(),
        )
        for template, fields in FIELDS.items()
    ]
    return Page(items=shown)
