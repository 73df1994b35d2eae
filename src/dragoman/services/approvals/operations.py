"""What can be asked of approvals."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.approvals import models as m

READ, WRITE, DECIDE = "read:approvals", "write:approvals", "decide:approvals"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

REQUEST = Operation(
    "approval.request", "Ask for an approval", m.RequestApproval, m.ApprovalView, WRITE, Effect.WRITE,
    description="It is good for exactly this action on this resource in this matter with this input, once. Policies "
    "say how many must approve, who may, and until when; whoever asks cannot decide.",
    example={
        "action": "signature.send", "resource": {"type": "document", "id": "nda-1", "version": "3"},
        "matter_id": "matter-7", "input": {"envelope_id": "env-1"}, "reason": "terms agreed on the phone",
    },
)  # fmt: skip
LIST = Operation(
    "approval.list", "List approvals", m.ListApprovals, Page[m.ApprovalSummary], READ,
    description="Newest first; with `decidable`, those that wait for the caller.",
)  # fmt: skip
SHOW = Operation(
    "approval.show", "Show an approval", m.ApprovalRef, m.ApprovalView, READ,
    description="What exactly is to be approved, its digest, under which policies, and what was decided.",
    example={"approval_id": _ID},
)  # fmt: skip
DECIDE_ONE = Operation(
    "approval.decide", "Approve or deny", m.DecideApproval, m.ApprovalView, DECIDE, Effect.WRITE, sensitive=True,
    description="One denial ends it; it is approved when enough different deciders have approved. Nobody decides what "
    "they asked for or take part in, and programs do not decide what is reserved for people.",
    example={"approval_id": _ID, "decision": "approve", "reason": "checked against the term sheet"},
)  # fmt: skip
WITHDRAW = Operation(
    "approval.withdraw", "Take a request back", m.WithdrawApproval, m.ApprovalView, WRITE, Effect.WRITE,
    description="By whoever asked for it, or an organisation's admin; what was used already stays so.",
    example={"approval_id": _ID, "reason": "the other side has new terms"},
)  # fmt: skip
