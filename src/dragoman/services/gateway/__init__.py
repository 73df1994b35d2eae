"""Agents of others at the agent gateway: each is known by its client certificate and proves itself by a key."""
