"""The one durable task behind every protocol."""
