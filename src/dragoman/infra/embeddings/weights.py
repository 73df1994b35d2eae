"""The weights of the local model: read where the set-up put them, checked, quantised once, kept beside the data."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
# Of all-MiniLM-L6-v2; anything else would be another model under its name.
SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_CACHE: Final = f"minilm-l6-int8-{SHA256[:12]}.npz"


class WrongWeights(Exception):
    """The file is not the model that it should be."""


def load_weights(model_dir: Path, cache_dir: Path) -> dict[str, Array]:
    """Every array of the model: matrices as int8 with a scale a row (`<name>.scale`), the rest as float32.

    Raises:
        WrongWeights: the checksum is another.
    """
    cached = cache_dir / _CACHE
    if not cached.exists():
        _write(cached, _quantised(_read_safetensors(model_dir / "model.safetensors")))
    with np.load(cached) as file:
        return {name: file[name] for name in file.files}


def widen(weights: dict[str, Array], name: str) -> Array:
    """A matrix as float32 again."""
    return weights[name].astype(np.float32) * weights[f"{name}.scale"][:, None]


def _read_safetensors(file: Path) -> dict[str, Array]:
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise WrongWeights(f"{file.name} is not all-MiniLM-L6-v2: its checksum differs")
    size = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + size])
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
    return arrays


def _quantised(arrays: dict[str, Array]) -> dict[str, Array]:
    quantised: dict[str, Array] = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            scale = np.maximum(np.abs(array).max(axis=1), 1e-12) / 127
            quantised[name] = np.round(array / scale[:, None]).astype(np.int8)
            quantised[f"{name}.scale"] = scale.astype(np.float32)
        else:
            quantised[name] = array.astype(np.float32)
    return quantised


def _write(target: Path, arrays: dict[str, Array]) -> None:
    """Whole or not at all: several servers may be at it at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".weights-", dir=target.parent)
    with os.fdopen(descriptor, "wb") as out:
        np.savez(out, allow_pickle=False, **arrays)
    Path(name).replace(target)
