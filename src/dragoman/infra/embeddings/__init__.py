"""Texts as vectors: by the model that ships with the set-up, by somebody's endpoint, or not at all."""

from dragoman.infra.embeddings.choice import choose_embedder
from dragoman.infra.embeddings.embedder import DIMENSIONS, Embedder, EmbedderAway, EmbeddingFailed, as_text
from dragoman.infra.embeddings.fusion import fuse, meaning_of
from dragoman.infra.embeddings.meanings import Meanings
from dragoman.infra.embeddings.queue import Shelf, VectorQueue

__all__ = [
    "DIMENSIONS",
    "Embedder",
    "EmbedderAway",
    "EmbeddingFailed",
    "Meanings",
    "Shelf",
    "VectorQueue",
    "as_text",
    "choose_embedder",
    "fuse",
    "meaning_of",
]
