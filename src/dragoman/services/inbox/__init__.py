"""Webhooks in: sources that may send events, and a queue in which each event waits until it is processed."""
