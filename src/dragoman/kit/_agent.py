"""An agent: who it is and what it can do."""

import copy
from collections.abc import Sequence

from dragoman.kit._errors import SkillNotFound, ToolNotFound
from dragoman.kit._llm import Llm
from dragoman.kit._prompt import Prompt
from dragoman.kit._resource import Resource
from dragoman.kit._skill import Skill
from dragoman.kit._tool import Tool
from dragoman.kit._validation import did_you_mean


class Agent:
    """Identity and skills, declared in one expression; it never changes and keeps no state of any task.

    `llm` is the model of its skills, `router` the one that chooses among them; a small one will do for that.
    Skills are classes described by `@skill`, instances of them, or `SkillFolder`s; their order is kept. It `offers`
    resources to read and prompts to choose from, besides, to callers whose protocol knows such things.

    Raises:
        ValueError: two skills have one id, or two tools, resources or prompts one name.
        TypeError: something in `skills` is no skill.
    """

    def __init__(
        self,
        name: str,
        description: str,
        version: str = "0.1.0",
        *,
        instructions: str | None = None,
        skills: Sequence[object],
        llm: Llm | None = None,
        router: Llm | None = None,
        offers: Sequence[Resource | Prompt] = (),
    ) -> None:
        for field, value in (("name", name), ("description", description), ("version", version)):
            if not value.strip():
                raise ValueError(f"an agent needs a {field}")
        self._name, self._description, self._version = name, description, version
        self._instructions, self._llm, self._router = instructions, llm, router
        self._skills: dict[str, Skill] = {}
        for one in map(Skill.of, skills):
            if one.id in self._skills:
                raise ValueError(f"two skills of agent {name!r} have the id {one.id!r}")
            self._skills[one.id] = one
        if not self._skills:
            raise ValueError("an agent needs at least one skill")
        self._tools: dict[str, tuple[Skill, Tool]] = {}
        for one in self._skills.values():
            for tool in one.tools:
                if tool.name in self._tools:
                    raise ValueError(f"two tools of agent {name!r} are named {tool.name!r}")
                self._tools[tool.name] = (one, tool)
        self._resources = tuple(one for one in offers if isinstance(one, Resource))
        self._prompts = tuple(one for one in offers if isinstance(one, Prompt))
        names = [*(one.uri for one in self._resources), *(one.name for one in self._prompts)]
        if len(set(names)) < len(offers):
            raise ValueError(f"two resources or prompts of agent {name!r} have one name, or one is neither")

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def description(self) -> str:
        """What it is for."""
        return self._description

    @property
    def version(self) -> str:
        """Which release of it this is."""
        return self._version

    @property
    def instructions(self) -> str | None:
        """What its model is told in every conversation."""
        return self._instructions

    @property
    def llm(self) -> Llm | None:
        """The model of its skills, where it has one."""
        return self._llm

    @property
    def router(self) -> Llm | None:
        """The model that chooses among its skills: its own for that, or else that of the skills."""
        return self._router or self._llm

    @property
    def skills(self) -> tuple[Skill, ...]:
        """What it can do, in the order of registration."""
        return tuple(self._skills.values())

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of all skills; each can be called by its name."""
        return tuple(tool for _, tool in self._tools.values())

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What it has to read."""
        return self._resources

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """Ways of asking it."""
        return self._prompts

    def get_skill(self, skill_id: str) -> Skill:
        """One skill.

        Raises:
            SkillNotFound: there is none of this id.
        """
        found = self._skills.get(skill_id)
        if found is None:
            raise SkillNotFound(skill_id)
        return found

    def get_tool(self, name: str) -> tuple[Skill, Tool]:
        """One tool, and the skill that it belongs to.

        Raises:
            ToolNotFound: there is none of this name; the message says which is near.
        """
        found = self._tools.get(name)
        if found is None:
            error = ToolNotFound(name)
            error.message += did_you_mean(name, self._tools)
            raise error
        return found

    def with_llm(self, llm: Llm | None, *, router: Llm | None = None) -> "Agent":
        """The same agent on another model."""
        changed = copy.copy(self)
        changed._llm, changed._router = llm, router  # noqa: SLF001 a copy of itself
        return changed

    def with_skills(self, skills: Sequence[object]) -> "Agent":
        """The same agent with further skills.

        Raises:
            ValueError: one of them has the id of another, or a tool of the same name.
        """
        return Agent(
            self._name,
            self._description,
            self._version,
            instructions=self._instructions,
            skills=[*self.skills, *skills],
            llm=self._llm,
            router=self._router,
            offers=(*self._resources, *self._prompts),
        )

    def __repr__(self) -> str:
        return f"Agent({self._name!r}, {self._version!r}, skills={list(self._skills)!r})"
