"""Tenants, users, API keys: who is here and what they are."""
