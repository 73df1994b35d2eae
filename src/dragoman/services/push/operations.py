"""The ways into push configurations; who may send messages may say who is told of them."""

from dragoman.operations import Passage, RateClass
from dragoman.services.tasks.passages import READ, WRITE

CREATE_PUSH = Passage("push.create", WRITE)
GET_PUSH = Passage("push.get", READ, RateClass.POLL)
LIST_PUSH = Passage("push.list", READ, RateClass.POLL)
DELETE_PUSH = Passage("push.delete", WRITE)
