"""all-MiniLM-L6-v2 in numpy: six layers of BERT, the mean of what they say of each token, made to length one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.infra.embeddings.weights import load_weights, widen
from dragoman.infra.embeddings.wordpiece import WordPiece

Array = NDArray[Any]
_LAYERS, _HEADS, _WIDTH, _EPSILON = 6, 12, 384, 1e-12
_MOST_TOKENS: Final = 256
_HEAD = _WIDTH // _HEADS


class MiniLM:
    """Loaded once, then only read: several threads may encode at the same time."""

    def __init__(self, model_dir: Path, cache_dir: Path) -> None:
        weights = load_weights(model_dir, cache_dir)
        self._pieces = WordPiece.open(model_dir / "vocab.txt")
        table = "embeddings.word_embeddings.weight"
        # Rows are looked up one by one, so the large table can stay small.
        self._table, self._table_scale = weights[table], weights[f"{table}.scale"]
        self._positions = (
            widen(weights, "embeddings.position_embeddings.weight")[:_MOST_TOKENS]
            + widen(weights, "embeddings.token_type_embeddings.weight")[0]
        )
        self._norm = _norm(weights, "embeddings")
        self._layers = [_Layer(weights, f"encoder.layer.{number}") for number in range(_LAYERS)]

    def encode(self, texts: Sequence[str]) -> Array:
        """A unit vector for each text, of at most its first 256 tokens."""
        tokens = [self._pieces.encode(text, most=_MOST_TOKENS) for text in texts]
        vectors = np.empty((len(texts), _WIDTH), dtype=np.float32)
        # One long row for all linear maps; only attention looks at texts one by one, so nothing is padded.
        lengths = [len(row) for row in tokens]
        ends = np.cumsum(lengths)
        spans = [slice(int(end) - length, int(end)) for length, end in zip(lengths, ends, strict=True)]
        state = self._begin(np.concatenate([np.asarray(row) for row in tokens]), lengths)
        for layer in self._layers:
            state = layer.forward(state, spans)
        for place, span in enumerate(spans):
            mean = state[span].mean(axis=0)
            vectors[place] = mean / max(float(np.linalg.norm(mean)), 1e-9)
        return vectors

    def _begin(self, ids: Array, lengths: Sequence[int]) -> Array:
        words = self._table[ids].astype(np.float32) * self._table_scale[ids][:, None]
        positions = np.concatenate([self._positions[:length] for length in lengths])
        return _normalise(words + positions, *self._norm)


class _Layer:
    def __init__(self, weights: dict[str, Array], name: str) -> None:
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        self._attend = np.ascontiguousarray(np.concatenate([widen(weights, f"{part}.weight") for part in parts]).T)
        self._attend_bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        self._mix, self._mix_bias = _linear(weights, f"{name}.attention.output.dense")
        self._mix_norm = _norm(weights, f"{name}.attention.output")
        self._grow, self._grow_bias = _linear(weights, f"{name}.intermediate.dense")
        self._shrink, self._shrink_bias = _linear(weights, f"{name}.output.dense")
        self._norm = _norm(weights, f"{name}.output")

    def forward(self, state: Array, spans: Sequence[slice]) -> Array:
        attended = state @ self._attend + self._attend_bias
        seen = np.empty_like(state)
        for span in spans:
            query, key, value = attended[span].reshape(-1, 3, _HEADS, _HEAD).transpose(1, 2, 0, 3)
            scores = query @ key.transpose(0, 2, 1) / np.float32(_HEAD**0.5)
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            seen[span] = (scores @ value).transpose(1, 0, 2).reshape(-1, _WIDTH)
        state = _normalise(state + seen @ self._mix + self._mix_bias, *self._mix_norm)
        grown = _gelu(state @ self._grow + self._grow_bias)
        return _normalise(state + grown @ self._shrink + self._shrink_bias, *self._norm)


def _linear(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(widen(weights, f"{name}.weight").T), weights[f"{name}.bias"]


def _norm(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]


def _normalise(state: Array, weight: Array, bias: Array) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
    return centred / spread * weight + bias


def _gelu(state: Array) -> Array:
    # The usual approximation by tanh: numpy has no error function, and the vectors differ in the fourth digit.
    return (
        0.5 * state * (1 + np.tanh(np.float32(0.7978845608) * (state + np.float32(0.044715) * state * state * state)))
    )
