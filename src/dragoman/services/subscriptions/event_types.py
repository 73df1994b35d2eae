"""The types of events that can be subscribed to. Those of plugins come from their records."""

from collections.abc import Mapping
from typing import Final

TASK_FINISHED: Final = "task.finished"
TASK_INPUT_REQUIRED: Final = "task.input_required"
APPROVAL_REQUESTED: Final = "approval.requested"
APPROVAL_DECIDED: Final = "approval.decided"
SUBSCRIPTION_TEST: Final = "subscription.test"
SUBSCRIPTION_DISABLED: Final = "subscription.disabled"
CORE_TYPES: Final[Mapping[str, str]] = {
    TASK_FINISHED: "A task that was handed over has succeeded, failed, or was rejected, cancelled or given up.",
    TASK_INPUT_REQUIRED: "A task that was handed over waits for an approval or for the input of a person.",
    APPROVAL_REQUESTED: "An approval was asked for, and waits for a decision.",
    APPROVAL_DECIDED: "An approval was approved, denied or withdrawn, has expired, or no longer holds.",
    SUBSCRIPTION_TEST: "Sent by `subscription.test`.",
    SUBSCRIPTION_DISABLED: "Another subscription of the tenant was disabled.",
}
