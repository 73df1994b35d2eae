"""What can be asked of the audit trail."""

from dragoman.operations import Operation, Page, RateClass
from dragoman.services.audit import models as m

AUDIT = "read:audit"

LIST_RECORDS = Operation(
    "audit.list", "List audit records", m.ListRecords, Page[m.AuditRecord], AUDIT,
    description="Newest first. Use it to see who did what: filter by resource for the history of one thing, by actor "
    "for one principal, by action for one kind of work. A long list goes on at next_cursor.",
)  # fmt: skip
VERIFY_TRAIL = Operation(
    "audit.verify", "Check the audit chain", m.VerifyTrail, m.Verification, AUDIT,
    description="Follows every link, checks every MAC and the head's signature, and names the first that is broken.",
)  # fmt: skip
EXPORT_TRAIL = Operation(
    "audit.export", "Export the audit chain", m.ExportTrail, m.Export, AUDIT, rate_class=RateClass.POLL,
    description="A piece at a time, in the form that the standalone verifier reads.",
)  # fmt: skip
