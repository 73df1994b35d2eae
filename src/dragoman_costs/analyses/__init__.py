"""Analyses: anomalies and savings are looked for whenever the bills that are shown have changed."""
