from collections import Counter

from tests.conformance.bindings import BINDINGS
from tests.conformance.musts import read_musts
from tests.conformance.vectors import read_vectors

MUSTS = read_musts()
VECTORS = list(read_vectors())
SHOWN = {must for vector in VECTORS for must in vector["shows"]}


def test_every_demand_on_a_server_is_shown_by_a_vector() -> None:
    assert [must.id for must in MUSTS if must.binds == "server" and must.id not in SHOWN] == []


def test_every_demand_on_others_has_its_reason() -> None:
    assert {must.binds for must in MUSTS} == {"server", "client", "other"}
    assert [must.id for must in MUSTS if must.binds != "server" and not must.because] == []


def test_every_vector_shows_a_demand_on_a_server() -> None:
    on_a_server = {must.id for must in MUSTS if must.binds == "server"}

    assert {vector["name"]: vector["shows"] for vector in VECTORS if not set(vector["shows"]) & on_a_server} == {}
    assert on_a_server >= SHOWN


def test_names_and_ids_are_given_once() -> None:
    names = Counter([vector["name"] for vector in VECTORS] + [must.id for must in MUSTS])

    assert [name for name, times in names.items() if times > 1] == []


def test_every_vector_runs_on_a_binding_and_has_steps() -> None:
    assert [vector["name"] for vector in VECTORS if not set(vector["bindings"]) <= set(BINDINGS)] == []
    assert [vector["name"] for vector in VECTORS if not vector["bindings"] or not vector["steps"]] == []
