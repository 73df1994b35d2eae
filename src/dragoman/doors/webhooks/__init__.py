"""Webhooks: what others tell by themselves."""
