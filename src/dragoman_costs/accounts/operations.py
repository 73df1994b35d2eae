"""What can be done with cloud accounts."""

from dragoman.operations import Binding, Effect, Operation, Page
from dragoman_costs.accounts import models as m

READ, MANAGE, PART = "read:costs", "manage:accounts", "costs"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

CREATE = Operation(
    "cloud_account.create", "Register a cloud account", m.CreateAccount, m.Account, MANAGE, Effect.WRITE, part_of=PART,
    description="Costs are imported for an account. With `config.export_url` and a `credential` its billing exports "
    "are synced daily; without them, send files to `cloud_account.import`. The credential is never shown again.",
    example={
        "provider": "aws", "identifier": "123456789012", "name": "Production",
        "config": {"export_url": "s3://acme-billing/focus/", "region": "eu-central-1"},
    },
)  # fmt: skip
LIST = Operation(
    "cloud_account.list", "List cloud accounts", m.ListAccounts, Page[m.Account], READ, part_of=PART,
    description="Use it to see which accounts there are, whether their syncing works, and when they were synced.",
)  # fmt: skip
GET = Operation(
    "cloud_account.get", "Show a cloud account", m.AccountRef, m.Account, READ, part_of=PART,
    example={"account_id": _ID},
)  # fmt: skip
UPDATE = Operation(
    "cloud_account.update", "Change a cloud account", m.UpdateAccount, m.Account, MANAGE, Effect.WRITE, part_of=PART,
    description="Rename it, move its exports, replace its credential, or stop and resume its syncing.",
    example={"account_id": _ID, "name": "Production EU"},
)  # fmt: skip
DELETE = Operation(
    "cloud_account.delete", "Delete a cloud account with its costs", m.AccountRef, m.DeletedAccount, MANAGE,
    Effect.DESTRUCTIVE, part_of=PART,
    description="Its costs are gone from every answer at once, and are removed from the database in the background. To "
    "keep them and end syncing, set the status `disconnected` instead.",
    example={"account_id": _ID},
)  # fmt: skip
TEST = Operation(
    "cloud_account.test", "Test a cloud account", m.AccountRef, m.TestedAccount, MANAGE, Effect.WRITE, part_of=PART,
    long=True,
    description="Reads the credential and, where there is `config.export_url`, lists the exports there with it. The "
    "answer says what is wrong; `status`, `credential_status` and `last_error` of the account are set by it.",
    example={"account_id": _ID},
)  # fmt: skip
SYNC = Operation(
    "cloud_account.sync", "Import new and changed billing exports", m.SyncAccount, m.SyncAccepted, MANAGE, Effect.WRITE,
    part_of=PART, long=True,
    description="Looks at `config.export_url` and asks for the import of every file that is new or has changed; it is "
    "done daily without being asked. The work is a task: its result names the imports. It takes `write:tasks`, too.",
    example={"account_id": _ID},
)  # fmt: skip

BINDINGS = (
    Binding("POST", "/api/cloud-accounts", CREATE, 201),
    Binding("GET", "/api/cloud-accounts", LIST),
    Binding("GET", "/api/cloud-accounts/{account_id}", GET),
    Binding("PATCH", "/api/cloud-accounts/{account_id}", UPDATE),
    Binding("DELETE", "/api/cloud-accounts/{account_id}", DELETE),
    Binding("POST", "/api/cloud-accounts/{account_id}/test", TEST),
    Binding("POST", "/api/cloud-accounts/{account_id}/sync", SYNC, 202),
)
