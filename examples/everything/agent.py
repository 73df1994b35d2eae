"""An agent with one of everything that MCP can carry, under the names that its conformance kit asks for.

dragoman serve --agent examples.everything.agent:agent
"""

from examples.everything.asking import Asking
from examples.everything.jobs import Jobs
from examples.everything.showing import Showing
from examples.everything.switches import Switches, switched_prompt
from examples.everything.texts import PROMPTS, RESOURCES

from dragoman.kit import Agent

agent = Agent(
    "Everything",
    "Shows, asks and does one of everything.",
    "1.0.0",
    skills=[Showing, Asking, Jobs, Switches],
    offers=[*RESOURCES, *PROMPTS, switched_prompt],
)
