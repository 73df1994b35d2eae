import subprocess
import sys

import dragoman.kit

ABSENT = (
    "httpx",
    "yaml",
    "openai",
    "anthropic",
    "pydantic_ai",
    "mcp",
    "starlette",
    "asyncpg",
    "structlog",
    "jsonschema",
)
CONTRACT = {
    "Agent",
    "Artifact",
    "Completed",
    "Content",
    "Event",
    "Failed",
    "InputRequired",
    "LlmFunction",
    "LlmWorker",
    "OnInputResult",
    "OnRequestResult",
    "Rejected",
    "Runtime",
    "SkillHandler",
    "SkillSlot",
    "Thread",
    "skill",
    "tool",
}


def test_importing_kit_brings_in_no_provider_no_client_and_no_framework() -> None:
    code = f"import sys, dragoman.kit, dragoman.kit.testing; print([m for m in {ABSENT!r} if m in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed.strip() == "[]"


def test_the_names_of_the_contract_are_there() -> None:
    assert set(dragoman.kit.__all__) >= CONTRACT
