"""What the policies in force have against something that is about to be done, without a record of what it was."""

from dragoman.blocking import Threads
from dragoman.context import Caller
from dragoman.services.governance.actions import Asker
from dragoman.services.governance.judging import Judgement, judge
from dragoman.services.governance.models import CheckedContext, LayerIds
from dragoman.services.governance.ports import Policies, PolicyBook


class Judges:
    """Judges in threads: parsing a project takes its time, and others must not wait for it."""

    def __init__(self) -> None:
        self._threads = Threads("policies", 4, share=2)

    async def judge(
        self,
        caller: Caller,
        book: PolicyBook,
        context: CheckedContext,
        asker: Asker,
        layer: str,
        ids: LayerIds,
        *,
        whole: bool,
    ) -> Judgement:
        """Return the same as `judge`."""
        return await self._threads.run(
            caller.tenant, judge, book, context, asker, target_layer=layer, ids=ids, whole=whole
        )


class PolicyObjections:
    """Judges texts that are private: who asks has to keep what came of it, and nobody keeps the text."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._judges = Judges()

    async def find(self, caller: Caller, context: CheckedContext, layer: str, ids: LayerIds) -> tuple[str, list[str]]:
        """The revision of the policies, and what each of them has against it.

        A text is no file of a project: what is forbidden in files is forbidden in it, and what every file needs is not
        asked of it.
        """
        book = await self._policies.in_force(caller.tenant)
        judgement = await self._judges.judge(caller, book, context, Asker.of(caller), layer, ids, whole=False)
        forbidden = [one for one in judgement.violations if one.rule.constraint.operator.forbids]
        return book.revision, [f"{one.policy_id}: {one.message}" for one in judgement.breaches(forbidden)]
