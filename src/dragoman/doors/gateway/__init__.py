"""The agent gateway: agents of others query by client certificate and key."""
