"""The ways into tasks that protocols carry by themselves."""

from dragoman.operations import Passage, RateClass

READ, WRITE = "read:tasks", "write:tasks"

SEND_MESSAGE = Passage("message.send", WRITE)
GET_TASK = Passage("task.get", READ, RateClass.POLL)
LIST_TASKS = Passage("task.list", READ, RateClass.POLL)
FOLLOW_TASK = Passage("task.follow", READ, RateClass.POLL)
CANCEL_TASK = Passage("task.cancel", WRITE)
READ_AGENT = Passage("agent.read", READ, RateClass.POLL)
