"""Spend that is not as expected: found by robust statistics, and explained by what caused it."""
