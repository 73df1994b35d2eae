"""Ways of asking that make good use of tools of the server."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from dragoman import kit


@kit.prompt(
    "Check that the trail is whole, then tell what was done and refused of late.",
    name="review-trail",
    title="Review the audit trail",
)
async def review_trail() -> str:
    """What is said to the model."""
    return (
        "Call audit_verify. If the chain is broken, say where, and stop. Otherwise call audit_list and tell in a few "
        "lines who did what, through which door, and list every refusal and failure with its code."
    )


@kit.prompt(
    "Hold files against the constraints of accepted decisions and policies, and look up the reasons.",
    name="check-change",
    title="Check a change against what was decided",
)
async def check_change(change: Annotated[str, Field(description="A diff, or files with their paths.")]) -> str:
    """What is said to the model."""
    return (
        f"Check this change before it is made:\n\n{change}\n\nCall knowledge_check with the files and dependencies "
        "that it touches. For every violation call knowledge_show with its item_id, and say in a sentence why the rule "
        "is there and what would satisfy it. Say plainly whether the change passes."
    )


@kit.prompt(
    "Store a fact where it will be found again, unless it is known already.",
    name="remember",
    title="Remember something",
)
async def remember(fact: Annotated[str, Field(description="What is to be remembered.")]) -> str:
    """What is said to the model."""
    return (
        f"Remember this: {fact}\n\nCall memory_search with its gist first. If the same is known, say so and add "
        "nothing. Otherwise call memory_add with one self-contained sentence, in the narrowest layer for which it is "
        "true."
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """A prompt, and the operations without which it is of no use."""

    prompt: kit.Prompt
    operations: tuple[str, ...]


RECIPES: Final = (
    Recipe(review_trail, ("audit.verify", "audit.list")),
    Recipe(check_change, ("knowledge.check", "knowledge.show")),
    Recipe(remember, ("memory.search", "memory.add")),
)
