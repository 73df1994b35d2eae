"""Types of machines as clouds name them: the next smaller one, the successor, and the one with ARM processors."""

import re
from dataclasses import dataclass
from typing import Final

_AWS: Final = re.compile(r"((?:db\.|cache\.)?)([a-z]+)(\d+)([a-z-]*)\.([a-z0-9]+)")
_AZURE: Final = re.compile(r"(?:Standard_)?([A-Z]+)(\d+)([a-z]*)(?:_v(\d+))?")
_GCP: Final = re.compile(r"([a-z]\d[a-z]?)-([a-z]+)-(\d+)")
_AWS_SIZES: Final = (
    "nano", "micro", "small", "medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge", "32xlarge",
)  # fmt: skip
# Families that have been replaced, the family that replaced them, and what is saved for the same size.
_AWS_SUCCESSORS: Final = {
    "m3": ("m7i", 0.15), "m4": ("m7i", 0.1), "m5": ("m7i", 0.04), "c3": ("c7i", 0.15), "c4": ("c7i", 0.1),
    "r3": ("r7i", 0.15), "r4": ("r7i", 0.08), "t2": ("t3", 0.1), "i2": ("i4i", 0.2),
}  # fmt: skip
_AZURE_VERSIONS: Final = {1: 0.2, 2: 0.15, 3: 0.12}
_GCP_SUCCESSORS: Final = {"n1": ("n2d", 0.13)}
_AWS_ARM: Final = {"m5": "m7g", "m6i": "m7g", "m6a": "m7g", "m7i": "m7g", "m7a": "m7g", "c5": "c7g", "c6i": "c7g",
                   "c7i": "c7g", "r5": "r7g", "r6i": "r7g", "r7i": "r7g", "t3": "t4g"}  # fmt: skip
_GCP_ARM: Final = {"n2": "t2a", "n2d": "t2a", "e2": "t2a"}
_ARM_SAVES: Final = {"aws": 0.18, "azure": 0.12, "gcp": 0.12}


@dataclass(frozen=True, slots=True)
class Replacement:
    """Another type of machine for the same work, and the share of the price that it saves."""

    type: str
    saves: float


def find_smaller(machine: str, steps: int) -> Replacement | None:
    """Return the type that is so many sizes smaller; each has half of the cores and half of the price."""
    saves = 1 - 0.5**steps
    if match := _AWS.fullmatch(machine):
        size = match[5]
        if size not in _AWS_SIZES or _AWS_SIZES.index(size) < steps:
            return None
        smaller = _AWS_SIZES[_AWS_SIZES.index(size) - steps]
        return Replacement(f"{machine[: -len(size)]}{smaller}", saves)
    if match := _GCP.fullmatch(machine):
        cores = int(match[3])
        return Replacement(f"{match[1]}-{match[2]}-{cores >> steps}", saves) if cores >> steps > 1 else None
    if match := _AZURE.fullmatch(machine):
        cores = int(match[2])
        head = machine[: match.start(2)]
        return Replacement(f"{head}{cores >> steps}{machine[match.end(2) :]}", saves) if cores >> steps > 1 else None
    return None


def find_successor(machine: str) -> Replacement | None:
    """Return the current generation of an older type; None where it is current, or unknown."""
    if match := _AWS.fullmatch(machine):
        successor = _AWS_SUCCESSORS.get(match[2] + match[3]) if not match[4] else None
        return Replacement(f"{match[1]}{successor[0]}.{match[5]}", successor[1]) if successor else None
    if match := _GCP.fullmatch(machine):
        successor = _GCP_SUCCESSORS.get(match[1])
        return Replacement(f"{successor[0]}-{match[2]}-{match[3]}", successor[1]) if successor else None
    if match := _AZURE.fullmatch(machine):
        saves = _AZURE_VERSIONS.get(int(match[4] or 1))
        return Replacement(f"Standard_{match[1]}{match[2]}{match[3] or 's'}_v5", saves) if saves else None
    return None


def find_arm(machine: str) -> Replacement | None:
    """Return the type of the same size with ARM processors; None where there is none, or it has them."""
    if match := _AWS.fullmatch(machine):
        family = _AWS_ARM.get(match[2] + match[3] + match[4])
        return Replacement(f"{match[1]}{family}.{match[5]}", _ARM_SAVES["aws"]) if family else None
    if match := _GCP.fullmatch(machine):
        family = _GCP_ARM.get(match[1]) if match[2] == "standard" else None
        return Replacement(f"{family}-standard-{match[3]}", _ARM_SAVES["gcp"]) if family else None
    if match := _AZURE.fullmatch(machine):
        if "p" in match[3] or match[1] not in ("D", "E") or int(match[4] or 1) < 5:
            return None
        return Replacement(f"Standard_{match[1]}{match[2]}ps_v{match[4]}", _ARM_SAVES["azure"])
    return None
