"""The models that the settings name: one for the skills of agents, one that finds the skill for free text."""

from functools import partial
from typing import Any

from dragoman import kit
from dragoman.infra.config import ConfigError, Settings, read_environment
from dragoman.infra.outbound import Clients, Upstream
from dragoman.kit import OpenAICompatible

_KEY = "DRAGOMAN_LLM_API_KEY"
_LONGEST_CHOICE_S = 10.0


class Models:
    """What the settings name; None where they name nothing."""

    def __init__(self, settings: Settings, outgoing: Clients) -> None:
        connect = partial(outgoing.own, Upstream.MODEL)
        self.llm = _open("DRAGOMAN_LLM", settings.llm, settings, connect=connect) if settings.llm else None
        chooser = settings.llm_router or settings.llm
        self.router = (
            _open("DRAGOMAN_LLM_ROUTER", chooser, settings, timeout_s=_LONGEST_CHOICE_S, max_retries=1, connect=connect)
            if chooser
            else None
        )

    def given_to(self, agent: kit.Agent) -> kit.Agent:
        """The agent with these, where it has none of its own."""
        llm = agent.llm or self.llm
        return agent.with_llm(llm, router=self.router or agent.router)

    async def close(self) -> None:
        """Close the connections."""
        for one in (self.llm, self.router):
            if one is not None:
                await one.aclose()


def _open(setting: str, spec: str, settings: Settings, **options: Any) -> OpenAICompatible:
    base_url = settings.llm_base_url
    key = settings.llm_api_key
    try:
        if key is not None:
            environ = {_KEY: key.get_secret_value()}
            return kit.llm_from(spec, base_url=base_url, environ=environ, api_key_env=_KEY, **options)
        return kit.llm_from(spec, base_url=base_url, environ=read_environment(), **options)
    except ValueError as error:
        raise ConfigError(f"{setting}: {error}") from error
