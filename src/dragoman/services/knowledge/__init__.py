"""Decisions, policies, patterns and specs in git, what they demand of code, and whether it is met."""
