"""What can be asked of contract work at once; what takes longer, or is consequential, is handed over as an envelope."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.contracts import catalogue
from dragoman.services.contracts import models as m

READ, WRITE = "read:documents", "write:documents"
_SKILL = "contracts"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

ADD = Operation(
    "document.add", "Keep a document", m.AddDocument, m.DocumentView, WRITE, Effect.WRITE, part_of=_SKILL,
    description="A new document, or with `document_id` a new version of one. The content must be what it says it is.",
    example={"title": "Terms of delivery", "media_type": "text/markdown", "content": "IyBUZXJtcyBvZiBkZWxpdmVyeQo="},
)  # fmt: skip
LIST = Operation("document.list", "List documents", m.ListDocuments, Page[m.DocumentView], READ, part_of=_SKILL)
SHOW = Operation(
    "document.show", "Show a document and its versions", m.GetDocument, m.DocumentHistory, READ, part_of=_SKILL,
    example={"document_id": _ID},
)  # fmt: skip
READ_CONTENT = Operation(
    "document.content", "Read what stands in a document", m.ReadContent, m.DocumentContent, READ, part_of=_SKILL,
    description="In base64, at most 2 MiB at a time; `next_offset` says where to go on.",
    example={"document_id": _ID},
)  # fmt: skip
LIST_TEMPLATES = Operation(
    "template.list", "List the templates of contracts", catalogue.ListTemplates, Page[catalogue.TemplateView], READ,
    part_of=_SKILL, description="Each with a schema of its fields, for `document.draft`.",
)  # fmt: skip
