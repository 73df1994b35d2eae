"""The A2A door."""
