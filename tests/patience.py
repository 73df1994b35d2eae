"""The patience of tests: far more than a busy machine needs, and it costs nothing where a test passes."""

from typing import Final

PATIENCE_S: Final = 60.0
