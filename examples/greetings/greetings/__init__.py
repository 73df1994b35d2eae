"""A plugin of Dragoman: it keeps greetings, and sends them as delegated actions."""
