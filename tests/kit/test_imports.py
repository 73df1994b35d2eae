import subprocess
import sys
from pathlib import Path

import pytest

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


def test_what_is_not_installed_is_named_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    tmp_path.joinpath("SKILL.md").write_text("---\nname: a\n---\n", encoding="utf-8")

    with pytest.raises(ImportError, match=r"dragoman\[skills\]"):
        dragoman.kit.SkillFolder(tmp_path)


async def test_a_missing_client_is_named_when_the_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    llm = dragoman.kit.llm_from("ollama:tiny")

    with pytest.raises(ImportError, match="httpx"):
        await dragoman.kit.LlmFunction(llm, str).run("hi")
