"""What agents and people want remembered, in layers from one agent's own to the whole company's."""
