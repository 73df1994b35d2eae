"""Work that blocks has a pool of its own with a share for each tenant: asyncio's pool is one for all of them."""

import ast

from tests.rules.tree import ours, parsed, text

# The server's own work, done once in the life of a process: nothing that a caller sends comes here.
ONCE = {
    "src/dragoman/app/composition.py": "flushing traces when the process ends",
    "src/dragoman/doors/mcp/bridge.py": "standard input of a process that serves one client",
    "src/dragoman/doors/mcp/door.py": "an import",
    "src/dragoman/doors/rest/page.py": "packing a page that is kept",
    "src/dragoman/doors/rest/site.py": "making a document that is kept",
    "src/dragoman/infra/edge/grpc_on_demand.py": "an import",
    "src/dragoman/infra/embedded/services.py": "starting the embedded servers",
    "src/dragoman/infra/embedded/shared.py": "starting the embedded servers",
}


def uses_the_default_pool(name: str) -> bool:
    for node in ast.walk(parsed(name)):
        called = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else ""
        if called == "to_thread":
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run_in_executor":
            pool = node.args[0]
            if isinstance(pool, ast.Constant) and pool.value is None:
                return True
    return False


def test_programs_with_pipes_are_started_in_one_place() -> None:
    starters = {name for name in ours("src/", ".py") if "create_subprocess" in text(name)}

    assert starters == {"src/dragoman/infra/programs.py"}


def test_only_the_servers_own_work_runs_in_the_pool_of_asyncio() -> None:
    assert {name for name in ours("src/", ".py") if uses_the_default_pool(name)} == set(ONCE)
