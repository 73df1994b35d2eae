"""One governed back-end for AI agents."""

__version__ = "0.1.0"
