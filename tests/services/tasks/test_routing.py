from dragoman.services.workers.routing import tabulate
from dragoman.services.workers.store import Rule
from tests.services.tasks.crew import hand

SEND = "signature.send"
OURS, PARTNER, RIVAL = hand("signature", SEND), hand("a2a:partner", SEND), hand("a2a:alpha", SEND)


def performer(*rules: Rule, remote: bool = True, enabled: bool = True) -> str | None:
    table = tabulate([OURS], [(PARTNER, enabled), (RIVAL, True)] if remote else [], rules)
    route = table.routes.get(SEND)
    assert [entry.worker.name for entry in table.entries if entry.performs] == ([route.worker.name] if route else [])
    return route.worker.name if route else None


def allowed(worker: str, *, prefer: bool = False) -> Rule:
    return Rule(SEND, worker, allowed=True, preferred=prefer)


def denied(worker: str) -> Rule:
    return Rule(SEND, worker, allowed=False)


def test_an_action_of_the_server_is_performed_unless_it_is_denied() -> None:
    assert performer(remote=False) == "signature"
    assert performer(denied("signature")) is None


def test_a_remote_worker_performs_only_what_was_allowed() -> None:
    assert performer(denied("signature"), allowed("a2a:partner")) == "a2a:partner"
    assert performer(denied("signature"), Rule("signature.void", "a2a:partner", allowed=True)) is None


def test_among_several_the_preferred_one_performs_then_the_servers_own_then_the_first_by_name() -> None:
    assert performer(allowed("a2a:partner", prefer=True), allowed("a2a:alpha")) == "a2a:partner"
    assert performer(allowed("a2a:partner"), allowed("a2a:alpha")) == "signature"
    assert performer(denied("signature"), allowed("a2a:partner"), allowed("a2a:alpha")) == "a2a:alpha"


def test_a_worker_that_is_not_enabled_is_passed_over() -> None:
    assert performer(allowed("a2a:partner", prefer=True), enabled=False) == "signature"


def test_an_action_nobody_declares_is_performed_by_nobody() -> None:
    assert "document.shred" not in tabulate([OURS], [(PARTNER, True)], [allowed("a2a:partner")]).routes


def test_a_remote_worker_cannot_make_a_sensitive_action_harmless() -> None:
    ours, theirs = hand("signature", SEND, sensitive=True), hand("a2a:partner", SEND, sensitive=False)

    table = tabulate([ours], [(theirs, True)], [denied("signature"), allowed("a2a:partner")])

    assert table.routes[SEND].worker is theirs
    assert table.routes[SEND].capability.sensitive is True
