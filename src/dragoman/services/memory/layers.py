"""Where a memory belongs, and who may go there.

    agent     one agent working for one user      } private: the user's own, and what works for that user
    user      one user                            }
    session   one conversation of a user          }
    project   a project                           } shared: everyone in the tenant who names it
    team      a team                              }
    org       an organisation                     }
    company   the tenant itself                   }

The order is also the precedence: what is said closer to the work wins over what is said further away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from dragoman.context import Caller, PrincipalType, Role
from dragoman.errors import InvalidInput
from dragoman.operations import Input
from dragoman.services.memory.errors import NotYourMemories
from dragoman.text import Subject

# No name may contain it, so two different sets of ids never make one key.
_SEPARATOR = "\n"


class Layer(StrEnum):
    """From the most specific to the most general."""

    AGENT = "agent"
    USER = "user"
    SESSION = "session"
    PROJECT = "project"
    TEAM = "team"
    ORG = "org"
    COMPANY = "company"

    @property
    def private(self) -> bool:
        """Whether what is in it belongs to one user."""
        return self in (Layer.AGENT, Layer.USER, Layer.SESSION)

    @property
    def precedence(self) -> int:
        """Less is more specific."""
        return _ORDER[self]


_ORDER = {layer: place for place, layer in enumerate(Layer)}
_NEEDED: dict[Layer, tuple[str, ...]] = {
    Layer.AGENT: ("agent_id", "user_id"),
    Layer.USER: ("user_id",),
    Layer.SESSION: ("session_id", "user_id"),
    Layer.PROJECT: ("project_id",),
    Layer.TEAM: ("team_id",),
    Layer.ORG: ("org_id",),
    Layer.COMPANY: ("company_id",),
}


class Ids(Input):
    """Whose layers are meant; `user_id` is the caller and `company_id` the tenant unless said otherwise."""

    agent_id: Subject | None = Field(None, description="An agent.")
    user_id: Subject | None = Field(None, description="A user; the caller when unset.")
    session_id: Subject | None = Field(None, description="A conversation.")
    project_id: Subject | None = Field(None, description="A project.")
    team_id: Subject | None = Field(None, description="A team.")
    org_id: Subject | None = Field(None, description="An organisation.")
    company_id: Subject | None = Field(None, description="The company; the tenant when unset.")


# What is the caller's own.
OWN = Ids.model_construct()


@dataclass(frozen=True, slots=True)
class Place:
    """A layer of somebody; `scope` is its key."""

    layer: Layer
    ids: dict[str, str]

    @property
    def scope(self) -> str:
        """One text for the layer and its ids."""
        return _SEPARATOR.join([self.layer.value, *self.ids.values()])

    @property
    def user_id(self) -> str | None:
        """Whose it is, when it is private."""
        return self.ids.get("user_id") if self.layer.private else None


def place_of(caller: Caller, layer: Layer, ids: Ids) -> Place:
    """The caller's place in a layer.

    Raises:
        InvalidInput: the layer needs an id that was not given; the field is named.
        NotYourMemories: the layer is another user's.
    """
    found: dict[str, str] = {}
    for name in _NEEDED[layer]:
        value = getattr(ids, name) or _default(caller, name)
        if value is None:
            raise InvalidInput.of(f"ids.{name}", f"the layer {layer.value} needs it")
        found[name] = value
    place = Place(layer, found)
    check_access(caller, place.user_id)
    return place


def places_of(caller: Caller, layers: Sequence[Layer] | None, ids: Ids) -> list[Place]:
    """The places to look in, most specific first; unless layers are named, every one whose ids are known.

    Raises:
        InvalidInput: a named layer lacks an id.
        NotYourMemories: a layer is another user's.
    """
    if layers is not None:
        wanted = sorted(set(layers), key=lambda layer: layer.precedence)
        return [place_of(caller, layer, ids) for layer in wanted]
    known = [layer for layer in Layer if all(getattr(ids, name) or _default(caller, name) for name in _NEEDED[layer])]
    return [place_of(caller, layer, ids) for layer in known]


def check_access(caller: Caller, user_id: str | None) -> None:
    """Private memories are their user's; programs work for users, and an admin answers for all of them.

    Raises:
        NotYourMemories: the caller is another person without such a role.
    """
    if not may_access(caller, user_id):
        raise NotYourMemories


def may_access(caller: Caller, user_id: str | None) -> bool:
    """Whether the caller may see and change what is private to this user; None is private to nobody."""
    return (
        user_id is None
        or user_id == caller.subject
        or caller.type is not PrincipalType.USER
        or not caller.roles.isdisjoint(_FOR_OTHERS)
    )


# Agents work for users; admins answer for them.
_FOR_OTHERS = frozenset({Role.AGENT, Role.ORG_ADMIN, Role.SUPER_ADMIN})


def _default(caller: Caller, name: str) -> str | None:
    return {"user_id": caller.subject, "company_id": str(caller.tenant)}.get(name)
