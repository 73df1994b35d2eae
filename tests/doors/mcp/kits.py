"""The official kits from npm, installed once into a cache outside the tree."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0", "node@22")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman" / "mcp-kits-1"
SUITE = "@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


class Kits:
    """Programs of the official kits."""

    def __init__(self, modules: Path) -> None:
        self._modules = modules

    def run(
        self, script: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of them to its end."""
        return subprocess.run(
            [self._modules / "node" / "bin" / "node", self._modules / script, *arguments],
            cwd=self._modules.parent, env=environment, capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip


def installed() -> Kits:
    """The kits; the test is skipped where they cannot be had."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed; the official kits need it")
    if not (CACHE / "ready").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "package.json").write_text("{}")
        made = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", *PACKAGES],
            cwd=CACHE, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if made.returncode != 0:
            pytest.skip(f"the official kits cannot be installed: {made.stderr[-300:]}")
        (CACHE / "ready").touch()
    if not (CACHE / "node_modules" / "node" / "bin" / "node").exists():
        pytest.skip("the official kits need Node 22, and npm did not install it")
    return Kits(CACHE / "node_modules")
