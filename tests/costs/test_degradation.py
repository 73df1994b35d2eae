"""Without the database what needs it says when to come back, and the rest goes on."""

import pytest

from tests.backstage import sql
from tests.harness import InProcess, wait_for

ASKED = {
    "/api/dashboard": None,
    "/api/dashboard/overview": None,
    "/api/budgets": None,
    "/api/cost-rates": None,
    "/api/costs/query": {"dimensions": ["service"]},
}


@pytest.mark.req("GW-208")
def test_costs_answer_503_while_postgresql_is_away_and_go_on_when_it_is_back() -> None:
    with InProcess() as server, server.client(server.token()) as client:

        def ask() -> dict[str, tuple[int, str | None]]:
            answers = {
                path: client.get(path) if body is None else client.post(path, json=body) for path, body in ASKED.items()
            }
            return {path: (answer.status_code, answer.headers.get("retry-after")) for path, answer in answers.items()}

        name = sql(server, "SELECT current_database() AS name")[0]["name"]
        before = ask()
        sql(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", database="postgres")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
        sql(server, ended, name, database="postgres")
        away = ask()
        schema, alive, card = (
            client.get(path).status_code for path in ("/api/costs/schema", "/health", "/.well-known/agent-card.json")
        )
        sql(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true", database="postgres")
        wait_for(lambda: ask() == before, "costs to be back")

    assert before == dict.fromkeys(ASKED, (200, None))
    assert {status for status, _ in away.values()} == {503}
    assert all(wait is not None and int(wait) > 0 for _, wait in away.values())
    assert (schema, card) == (200, 200)
    assert alive in (200, 503)
