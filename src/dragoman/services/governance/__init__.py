"""Policies in force, what breaks them, and how far a project has drifted."""
