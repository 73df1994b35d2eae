"""The HTTP edge that all doors share."""

from dragoman.infra.edge.address import base_url
from dragoman.infra.edge.challenge import Resource
from dragoman.infra.edge.client_certificate import ClientCertificates
from dragoman.infra.edge.cors import Cors
from dragoman.infra.edge.edge import AsgiApp, AsgiScope, Edge, EdgeRules, Entrance, Receive, Send
from dragoman.infra.edge.events import ALIVE, Write, event, pump_events, run_until_stopping
from dragoman.infra.edge.exchange import Answer, exchange, read_body
from dragoman.infra.edge.problem import STATUS, problem

__all__ = [
    "ALIVE",
    "STATUS",
    "Answer",
    "AsgiApp",
    "AsgiScope",
    "ClientCertificates",
    "Cors",
    "Edge",
    "EdgeRules",
    "Entrance",
    "Receive",
    "Resource",
    "Send",
    "Write",
    "base_url",
    "event",
    "exchange",
    "problem",
    "pump_events",
    "read_body",
    "run_until_stopping",
]
