"""all-MiniLM-L6-v2 in numpy: six layers of BERT, the mean of what they say of each token, made to length one."""

from collections.abc import Iterator, Sequence
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
# Rows are multiplied so many at a time; what is left over is multiplied one by one.
_ROWS: Final = 4
_PIECE_TOKENS: Final = 256


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
        # A term of the activation may leave the range of its numbers, and is then what it should be: without weight.
        with np.errstate(over="ignore"):
            return np.concatenate([self._forward(piece) for piece in _pieces_of(tokens)])

    def _forward(self, tokens: Sequence[Sequence[int]]) -> Array:
        # One long row for all linear maps; only attention looks at texts one by one, so no text is padded.
        lengths = [len(row) for row in tokens]
        ends = np.cumsum(lengths)
        spans = [slice(int(end) - length, int(end)) for length, end in zip(lengths, ends, strict=True)]
        state = self._begin(tokens, lengths)
        for layer in self._layers:
            state = layer.forward(state, spans)
        means = np.stack([state[span].mean(axis=0) for span in spans])
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)

    def _begin(self, tokens: Sequence[Sequence[int]], lengths: Sequence[int]) -> Array:
        """What the first layer is given; the last rows are of no text."""
        number = sum(lengths)
        # Eleven rows take the multiplication longer than twelve.
        filled = np.zeros((-(-number // _ROWS) * _ROWS, _WIDTH), dtype=np.float32)
        ids = np.concatenate([np.asarray(row) for row in tokens])
        words = self._table[ids] * self._table_scale[ids][:, None]
        positions = np.concatenate([self._positions[:length] for length in lengths])
        filled[:number] = _normalise(words + positions, *self._norm)
        return filled


class _Layer:
    def __init__(self, weights: dict[str, Array], name: str) -> None:
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        self._attend = np.ascontiguousarray(np.concatenate([widen(weights, f"{part}.weight") for part in parts]).T)
        self._attend_bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        # What is asked for is scaled here once, and not in every comparison.
        self._attend[:, :_WIDTH] /= np.float32(_HEAD**0.5)
        self._attend_bias[:_WIDTH] /= np.float32(_HEAD**0.5)
        self._mix, self._mix_bias = _linear(weights, f"{name}.attention.output.dense")
        self._mix_norm = _norm(weights, f"{name}.attention.output")
        self._grow, self._grow_bias = _linear(weights, f"{name}.intermediate.dense")
        self._shrink, self._shrink_bias = _linear(weights, f"{name}.output.dense")
        self._norm = _norm(weights, f"{name}.output")

    def forward(self, state: Array, spans: Sequence[slice]) -> Array:
        attended = state @ self._attend
        attended += self._attend_bias
        seen = np.zeros_like(state)
        for span in spans:
            query, key, value = attended[span].reshape(-1, 3, _HEADS, _HEAD).transpose(1, 2, 0, 3)
            scores = query @ key.transpose(0, 2, 1)
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            seen[span] = (scores @ value).transpose(1, 0, 2).reshape(-1, _WIDTH)
        mixed = seen @ self._mix
        mixed += self._mix_bias
        mixed += state
        state = _normalise(mixed, *self._mix_norm)
        grown = state @ self._grow
        grown += self._grow_bias
        shrunk = _gelu(grown) @ self._shrink
        shrunk += self._shrink_bias
        shrunk += state
        return _normalise(shrunk, *self._norm)


def _pieces_of(tokens: Sequence[Sequence[int]]) -> Iterator[Sequence[Sequence[int]]]:
    """Texts in pieces of as many tokens as the caches like."""
    piece: list[Sequence[int]] = []
    number = 0
    for row in tokens:
        if piece and number + len(row) > _PIECE_TOKENS:
            yield piece
            piece, number = [], 0
        piece.append(row)
        number += len(row)
    yield piece


def _linear(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return np.ascontiguousarray(widen(weights, f"{name}.weight").T), weights[f"{name}.bias"]


def _norm(weights: dict[str, Array], name: str) -> tuple[Array, Array]:
    return weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]


def _normalise(state: Array, weight: Array, bias: Array) -> Array:
    """Changes what it is given."""
    state -= state.mean(axis=-1, keepdims=True)
    spread = np.einsum("ij,ij->i", state, state)[:, None] / np.float32(_WIDTH)
    state /= np.sqrt(spread + np.float32(_EPSILON))
    state *= weight
    state += bias
    return state


def _gelu(state: Array) -> Array:
    """Changes what it is given."""
    # The usual approximation: numpy has no error function, and the vectors differ in the fourth digit. By exp, which
    # numpy has three times as fast as the tanh that it is usually written with.
    inner = state * state
    inner *= np.float32(-2 * 0.7978845608 * 0.044715)
    inner -= np.float32(2 * 0.7978845608)
    inner *= state
    np.exp(inner, out=inner)
    inner += 1
    state /= inner
    return state
