"""What can be asked of imports."""

from dragoman.operations import Binding, Effect, Operation, Page
from dragoman_costs.imports import models as m

READ, MANAGE = "read:costs", "manage:accounts"
_COSTS = "costs"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

IMPORT = Operation(
    "cloud_account.import", "Import a billing export into a cloud account", m.ImportFile, m.ImportAccepted, MANAGE,
    Effect.WRITE, long=True, part_of=_COSTS,
    description="A FOCUS export (CSV, gzip or Parquet) from an upload, a directory of the server or an https address. "
    "The work is a task: follow `task_id`, then read the report with `costs.show_import`. The same file twice changes "
    "nothing; another file for a billing period replaces it.",
    example={"account_id": _ID, "url": "https://billing.example.com/focus.parquet"},
)  # fmt: skip
BEGIN_UPLOAD = Operation(
    "costs.begin_upload", "Begin to send a billing export in parts", m.BeginUpload, m.Upload, MANAGE, Effect.WRITE,
    part_of=_COSTS, description="Send the parts next, in any order; what has arrived survives a crash for a day.",
    example={"file_name": "focus.csv", "size_bytes": 1024, "sha256": "0" * 64},
)  # fmt: skip
ADD_PART = Operation(
    "costs.add_upload_part", "Send one part of a billing export", m.AddPart, m.PartAdded, MANAGE, Effect.WRITE,
    part_of=_COSTS, description="A part that has arrived before is kept as it is.",
    example={"upload_id": _ID, "number": 1, "content": "QmlsbGVkQ29zdA=="},
)  # fmt: skip
SHOW_UPLOAD = Operation(
    "costs.show_upload", "Show what has arrived of an upload", m.UploadRef, m.Upload, MANAGE, part_of=_COSTS,
    example={"upload_id": _ID},
)  # fmt: skip
FIND_ACCOUNT = Operation(
    "costs.find_account", "Find the cloud account whose bill an upload is, or register it", m.UploadRef,
    m.AccountFound, MANAGE, Effect.WRITE, long=True, part_of=_COSTS,
    description="By the provider and the BillingAccountId that most rows of the finished upload have.",
    example={"upload_id": _ID},
)  # fmt: skip
LIST = Operation("costs.imports", "List imports, newest first", m.ListImports, Page[m.Import], READ, part_of=_COSTS)
SHOW = Operation(
    "costs.show_import", "Show an import with its report", m.ImportRef, m.Import, READ, part_of=_COSTS,
    description="Rows, billing periods, totals by currency, how many rows were set aside, and the error if it failed.",
    example={"import_id": _ID},
)  # fmt: skip
LIST_BAD_ROWS = Operation(
    "costs.bad_rows", "List the rows that an import set aside", m.ListBadRows, Page[m.BadRow], READ, part_of=_COSTS,
    description="In the order of the file, at most the first 1000 of an import.", example={"import_id": _ID},
)  # fmt: skip
BINDINGS = (
    Binding("POST", "/api/cloud-accounts/{account_id}/import", IMPORT, 202),
    Binding("POST", "/api/cost-uploads", BEGIN_UPLOAD, 201),
    Binding("POST", "/api/cost-uploads/{upload_id}/parts", ADD_PART),
    Binding("GET", "/api/cost-uploads/{upload_id}", SHOW_UPLOAD),
    Binding("POST", "/api/cost-uploads/{upload_id}/account", FIND_ACCOUNT),
    Binding("GET", "/api/cost-imports", LIST),
    Binding("GET", "/api/cost-imports/{import_id}", SHOW),
    Binding("GET", "/api/cost-imports/{import_id}/bad-rows", LIST_BAD_ROWS),
)
