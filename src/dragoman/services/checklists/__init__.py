"""Closing checklists: what must be there before, at and after a closing, and every patch that led to it."""
