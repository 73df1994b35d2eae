"""Models by a short name: `openai:gpt-5-mini`, `ollama:llama3.2`, `compatible:my-model`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dragoman.kit._openai import OpenAICompatible
from dragoman.kit._validation import did_you_mean


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider is, and which variable its key is usually in."""

    base_url: str | None
    api_key_env: str | None = None
    native_schema: bool = True


PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", native_schema=False),
    "anthropic": Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", native_schema=False),
    "ollama": Provider("http://localhost:11434/v1"),
    "compatible": Provider(None),
}


def llm_from(
    spec: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str] | None = None,
    api_key_env: str | None = None,
    **options: Any,
) -> OpenAICompatible:
    """A model from `provider:model`; nothing is read from the process, so pass `environ=os.environ` for the key.

    `api_key_env` names the variable where it is not the provider's usual one. Other options are OpenAICompatible's.

    Raises:
        ValueError: the spec is malformed, the provider unknown, its address missing, or the variable not set.
    """
    name, colon, model = spec.partition(":")
    if not colon or not model.strip():
        raise ValueError(f"a model is written provider:model, for example openai:gpt-5-mini, not {spec!r}")
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ValueError(f"unknown provider {name!r}{did_you_mean(name, PROVIDERS)}; known: {', '.join(PROVIDERS)}")
    address = base_url or provider.base_url
    if address is None:
        raise ValueError(f"provider {name!r} needs a base_url")
    variable = api_key_env or (provider.api_key_env if base_url is None else None)
    key = (environ or {}).get(variable) if variable else None
    if variable and not key:
        raise ValueError(f"the variable {variable} is not set; pass environ=os.environ, or api_key_env=...")
    settings: dict[str, Any] = {"native_schema": provider.native_schema, **options}
    return OpenAICompatible(address, model, api_key=key, **settings)
