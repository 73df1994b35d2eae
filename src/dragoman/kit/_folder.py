"""SKILL.md folders as skills: the model follows written instructions, with the tools that they allow."""

import logging
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from dragoman.kit._answer import answer_by_model
from dragoman.kit._content import Content
from dragoman.kit._context import Context
from dragoman.kit._errors import ToolError
from dragoman.kit._results import OnInputResult, OnRequestResult, Rejected
from dragoman.kit._skill import SkillHandler, SkillInfo
from dragoman.kit._tool import Tool, tool

log = logging.getLogger(__name__)
_FRONT_MATTER = re.compile(r"\A---\r?\n(?P<yaml>.*?)\r?\n---\r?\n?(?P<body>.*)\Z", re.DOTALL)
_LARGEST_FILE_BYTES = 256 * 1024


class SkillFolder(SkillHandler):
    """A folder with a `SKILL.md`: `name`, `description` and `allowed-tools` in front, instructions below.

    Of the given tools the model gets those that `allowed-tools` names, and all of them where it is absent; it can
    also read the folder's other files. The instructions are read when the skill first runs.

    Raises:
        ValueError: there is no SKILL.md, or its front matter lacks a name or a description.
    """

    def __init__(self, path: str | Path, *, tools: Sequence[Tool] = ()) -> None:
        self._path = Path(path)
        front = _front_matter(self._path)
        self.skill_info = SkillInfo(  # pyright: ignore[reportAttributeAccessIssue] every folder has its own
            id=_text(front, "name", self._path), description=_text(front, "description", self._path)
        )
        allowed = _names(front.get("allowed-tools"))
        self._allowed = [one for one in tools if allowed is None or one.name in allowed]
        unknown = (allowed or set[str]()) - {one.name for one in tools}
        if unknown:
            log.warning("%s allows tools that it was not given: %s", self._path, ", ".join(sorted(unknown)))

    @cached_property
    def instructions(self) -> str:
        """What stands below the front matter."""
        return _split(self._path)[1].strip()

    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        """Let the model follow the instructions."""
        if not ctx.has_llm:
            return Rejected("this skill is carried out by a model, and the agent has none")
        return await self._follow(ctx, content)

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        """Go on with the user's answer."""
        return await self._follow(ctx, content)

    async def _follow(self, ctx: Context, content: Content) -> OnInputResult:
        tools = [*self._allowed, self._reader()]
        return await answer_by_model(ctx, content, tools=tools, instructions=self.instructions)

    def _reader(self) -> Tool:
        root = self._path.resolve()

        @tool("Read a text file of this skill's folder.", read_only=True)
        def read_skill_file(path: str) -> str:
            wanted = (root / path).resolve()
            if not wanted.is_relative_to(root) or not wanted.is_file():
                raise ToolError(f"the skill has no file {path!r}")
            if wanted.stat().st_size > _LARGEST_FILE_BYTES:
                raise ToolError(f"the file {path!r} is larger than {_LARGEST_FILE_BYTES} bytes")
            return wanted.read_text(encoding="utf-8", errors="replace")

        return read_skill_file


def _split(path: Path) -> tuple[str, str]:
    file = path / "SKILL.md"
    if not file.is_file():
        raise ValueError(f"{path} has no SKILL.md")
    found = _FRONT_MATTER.match(file.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{file} does not begin with front matter between two lines of ---")
    return found["yaml"], found["body"]


def _front_matter(path: Path) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415 only SKILL.md folders need it
    except ImportError:
        raise ImportError("SkillFolder needs PyYAML: pip install 'dragoman[skills]'") from None
    try:
        front: object = yaml.safe_load(_split(path)[0])
    except yaml.YAMLError as error:
        raise ValueError(f"{path / 'SKILL.md'}: the front matter is no YAML: {error}") from None
    if not isinstance(front, dict):
        raise ValueError(f"{path / 'SKILL.md'}: the front matter is no mapping")  # noqa: TRY004 the file is wrong, not the call
    return cast("dict[str, Any]", front)


def _text(front: dict[str, Any], field: str, path: Path) -> str:
    value = front.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{path / 'SKILL.md'}: the front matter needs a {field}")
    return value.strip()


def _names(given: object) -> set[str] | None:
    """`allowed-tools` is a list, or names with blanks or commas between; `Bash(git:*)` allows `Bash`."""
    if given is None:
        return None
    listed = cast("list[object]", given) if isinstance(given, list) else re.split(r"[\s,]+(?![^(]*\))", str(given))
    return {str(one).partition("(")[0].strip() for one in listed if str(one).strip()}
