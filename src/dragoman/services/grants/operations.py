"""What can be done with grants."""

from dragoman.operations import Effect, Operation, Page
from dragoman.services.grants import models as m

READ, WRITE = "read:grants", "write:grants"
_ID = "01890a5d-ac96-774b-bcce-b302099a8057"

CREATE = Operation(
    "grant.create", "Let an agent act for a person", m.CreateGrant, m.GrantView, WRITE, Effect.WRITE, sensitive=True,
    description="Under a grant `on_behalf_of` of an envelope or an approval request is checked: the person counts as a "
    "party and cannot approve what the agent asks for. Without one the name is shown as a claim. A grant gives the "
    "agent no permissions. People grant for themselves; an organisation's admin may grant for another.",
    example={"agent": "key:drafter", "actions": ["document.*", "signature.prepare"], "reason": "drafts my contracts"},
)  # fmt: skip
LIST = Operation(
    "grant.list", "List grants", m.ListGrants, Page[m.GrantView], READ,
    description="Newest first. An organisation's admin sees all; others see those that they gave or were given.",
)  # fmt: skip
SHOW = Operation("grant.show", "Show a grant", m.GrantRef, m.GrantView, READ, example={"grant_id": _ID})
END = Operation(
    "grant.end", "End a grant", m.EndGrant, m.GrantView, WRITE, Effect.WRITE,
    description="By the person it is for, the agent, or an organisation's admin. Tasks that were accepted under it and "
    "have not been performed are rejected with `GRANT_ENDED`.",
    example={"grant_id": _ID, "reason": "the project is over"},
)  # fmt: skip
