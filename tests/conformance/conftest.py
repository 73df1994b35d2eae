from tests.doors.a2a.conftest import _close_clients, _find_the_agent, served

__all__ = ["_close_clients", "_find_the_agent", "served"]
