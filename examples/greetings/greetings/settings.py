"""DRAGOMAN_GREETINGS__*."""

from pydantic import Field

from dragoman.infra.config import Section


class GreetingSettings(Section):
    """How people are greeted."""

    word: str = Field("Hello", description="The word that a greeting begins with.")
