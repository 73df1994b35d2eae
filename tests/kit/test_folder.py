import logging
from pathlib import Path

import pytest

from dragoman.kit import SkillFolder, TaskState
from dragoman.kit.testing import RecordingTool, ScriptedLlm, agent_of, call, run_skill

SKILL = """\
---
name: tea-maker
description: Makes tea.
allowed-tools: boil Bash(git log:*)
---
# How to make tea

Boil water. See [times](times.md).
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tea"
    path.mkdir()
    path.joinpath("SKILL.md").write_text(SKILL, encoding="utf-8")
    path.joinpath("times.md").write_text("green: 2 minutes", encoding="utf-8")
    tmp_path.joinpath("secret.txt").write_text("secret", encoding="utf-8")
    return path


def done(message: str = "Here is your tea.") -> dict[str, str]:
    return {"status": "complete", "message": message}


async def test_a_folder_is_a_skill_that_the_model_carries_out(folder: Path) -> None:
    boil = RecordingTool("boil", "hot")
    llm = ScriptedLlm(call("boil", degrees=80), {"status": "needs_input", "message": "Which tea?"}, done())
    skill = SkillFolder(folder, tools=[boil])

    task = await run_skill(skill, "tea please", "green", llm=llm)

    assert (task.state, task.text, task.skill_id) == (TaskState.COMPLETED, "Here is your tea.", "tea-maker")
    assert boil.calls == [{"degrees": 80}]
    assert "Boil water." in (llm.calls[0].thread.system or "")
    assert [event.text for event in task.history] == ["tea please", "Which tea?", "green", "Here is your tea."]


async def test_tools_that_are_not_allowed_are_neither_offered_nor_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    boil, burn = RecordingTool("boil"), RecordingTool("burn")
    llm = ScriptedLlm(call("burn"), done())

    with caplog.at_level(logging.WARNING):
        skill = SkillFolder(folder, tools=[boil, burn])
    await run_skill(skill, "tea", llm=llm)

    assert [spec.name for spec in llm.calls[0].tools] == ["boil", "read_skill_file"]
    assert burn.calls == []
    assert "there is no tool 'burn'" in str(llm.calls[1].thread[-1].content.tool_responses[0].output)
    assert "allows tools that it was not given: Bash" in caplog.text


async def test_the_model_reads_the_files_of_the_folder_and_no_others(folder: Path) -> None:
    asked = [call("read_skill_file", path=path) for path in ("times.md", "../secret.txt", "/etc/passwd", "nope")]
    llm = ScriptedLlm(asked, done())

    await run_skill(SkillFolder(folder), "tea", llm=llm)

    outputs = [response.output for response in llm.calls[1].thread[-1].content.tool_responses]
    assert outputs[0] == "green: 2 minutes"
    assert outputs[1:] == [f"the skill has no file {path!r}" for path in ("../secret.txt", "/etc/passwd", "nope")]


async def test_without_a_model_it_is_rejected(folder: Path) -> None:
    assert (await run_skill(SkillFolder(folder), "tea")).state is TaskState.REJECTED


async def test_the_instructions_are_read_when_the_skill_first_runs(folder: Path) -> None:
    skill = SkillFolder(folder)
    agent_of(skill)
    folder.joinpath("SKILL.md").write_text(SKILL.replace("Boil water", "Melt snow"), encoding="utf-8")

    llm = ScriptedLlm(done())
    await run_skill(skill, "tea", llm=llm)

    assert "Melt snow" in (llm.calls[0].thread.system or "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# no front matter", "does not begin with front matter"),
        ("---\nname: x\n---\n", "needs a description"),
        ("---\ndescription: x\n---\n", "needs a name"),
        ("---\n- a\n---\n", "no mapping"),
        ("---\na: [\n---\n", "no YAML"),
        ("---\nname: Not An Id\ndescription: x\n---\n", "did you mean 'not-an-id'"),
    ],
)
def test_a_malformed_folder_is_refused_with_its_path(tmp_path: Path, text: str, complaint: str) -> None:
    tmp_path.joinpath("SKILL.md").write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=complaint):
        SkillFolder(tmp_path)


def test_a_folder_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no SKILL\.md"):
        SkillFolder(tmp_path)
