"""The skills that come with the server, written with kit alone: what they can do is behind the tools they are given.

A skill here is what stands between an operation and a conversation. It reads plain words where these are clear, asks
where an operation cannot decide, and leaves all rules to the operations.
"""

from dragoman.skills._contracts import ContractsSkill
from dragoman.skills._governance import GovernanceSkill
from dragoman.skills._hosted import HostedSkill
from dragoman.skills._knowledge import KnowledgeSkill
from dragoman.skills._memory import MemorySkill

FIRST_PARTY: dict[str, type[HostedSkill]] = {
    "memory": MemorySkill,
    "knowledge": KnowledgeSkill,
    "governance": GovernanceSkill,
    "contracts": ContractsSkill,
}

__all__ = ["FIRST_PARTY", "ContractsSkill", "GovernanceSkill", "HostedSkill", "KnowledgeSkill", "MemorySkill"]
