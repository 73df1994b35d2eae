"""The card as clients before 1.0 read it: the same skills, each with its tools."""

from typing import Any, Final

from dragoman.doors.a2a.seed_paths import SEND_PATH

Json = dict[str, Any]
OLD_CARD_PATH: Final = "/.well-known/agent.json"
_SAME: Final = ("name", "description", "version", "documentationUrl", "defaultInputModes", "defaultOutputModes")


def old_card(card: Json, base_url: str) -> Json:
    """A card of 1.0 in the shape of 0.1."""
    tools: list[Json] = card["capabilities"]["extensions"][0]["params"]["tools"]
    by_skill: dict[str, list[Json]] = {}
    for tool in tools:
        shown = {name: value for name, value in tool.items() if name != "skill"}
        by_skill.setdefault(tool["skill"], []).append(shown)
    return {
        **{name: card[name] for name in _SAME},
        # Where JSON-RPC of this version is answered; the plain paths stand beside it.
        "url": f"{base_url}{SEND_PATH}",
        "provider": {"organization": "Dragoman", "url": base_url},
        "capabilities": {
            "streaming": card["capabilities"]["streaming"],
            # These paths have no way to ask for them.
            "pushNotifications": False,
            "stateTransitionHistory": True,
        },
        "authentication": {"schemes": ["Bearer", "ApiKey"]},
        "skills": [skill | {"tools": by_skill.get(skill["id"], [])} for skill in card["skills"]],
    }
