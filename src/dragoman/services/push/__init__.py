"""Push notifications: who is told of what happens to a task, and the telling."""
