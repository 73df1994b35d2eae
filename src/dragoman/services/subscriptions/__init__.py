"""Webhooks out: other systems subscribe to what happens here."""
