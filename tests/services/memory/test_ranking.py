"""Precedence and fusion, whatever the scores are."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dragoman.infra.embeddings import fuse, meaning_of
from dragoman.services.memory.layers import Layer
from dragoman.services.memory.ranking import TIE, Scored, arrange, freshness, with_neighbours

SHARES = st.floats(0, 1)
HITS = st.lists(
    st.tuples(st.sampled_from(Layer), SHARES, st.sampled_from(["tea", "Tea!", "coffee", "no tea", "tea at 5"])),
    max_size=12,
).map(
    lambda rows: [
        Scored(UUID(int=number), layer, content, score) for number, (layer, score, content) in enumerate(rows)
    ]
)


@given(SHARES, SHARES, SHARES)
def test_no_signal_makes_a_score_worse(words: float, meaning: float, more: float) -> None:
    fused = fuse(words, meaning)

    assert 0 <= fused <= 1
    assert fused >= fuse(words, 0) - 1e-9
    assert fused >= fuse(0, meaning) - 1e-9
    assert fuse(max(words, more), meaning) >= fused - 1e-9
    assert with_neighbours(fused, more, 0) >= fused - 1e-9


@given(st.floats(-0.2, 0.15))
def test_an_embedder_that_knows_nothing_changes_nothing(cosine: float) -> None:
    assert fuse(0.4, meaning_of(cosine)) == fuse(0.4, 0)


@given(st.floats(0, 100_000), st.floats(0, 0.99))
def test_age_takes_at_most_a_tenth(days: float, rate: float) -> None:
    assert 0.9 - 1e-9 <= freshness(days, rate) <= 1


@given(HITS)
def test_nothing_is_lost_and_nothing_is_told_twice(hits: list[Scored]) -> None:
    arranged = arrange(hits)

    told = [hit.memory_id for hit in arranged] + [folded.memory_id for hit in arranged for folded in hit.folded]
    assert sorted(told) == sorted(hit.memory_id for hit in hits)
    for hit in arranged:
        assert all(folded.layer.precedence >= hit.layer.precedence for folded in hit.folded)


@given(st.sampled_from(Layer), st.sampled_from(Layer), SHARES, SHARES)
def test_the_more_specific_of_two_near_ties_comes_first(one: Layer, other: Layer, first: float, second: float) -> None:
    hits = [Scored(UUID(int=1), one, "tea", first), Scored(UUID(int=2), other, "coffee", second)]

    leader = arrange(hits)[0]

    if abs(first - second) <= TIE:
        assert leader.layer.precedence == min(one.precedence, other.precedence)
    else:
        assert leader.score == max(first, second)


def test_what_says_the_same_is_folded_into_the_more_specific_but_no_number_and_no_negation() -> None:
    ids = [UUID(int=number) for number in range(4)]
    near = frozenset(frozenset((ids[0], other)) for other in ids[1:])
    project = Scored(ids[0], Layer.PROJECT, "We deploy on port 8080.", 0.5)
    company = [
        Scored(ids[1], Layer.COMPANY, "Deployments use the port 8080.", 0.9),
        Scored(ids[2], Layer.COMPANY, "We deploy on port 9090.", 0.4),
        Scored(ids[3], Layer.COMPANY, "We do not deploy on port 8080.", 0.3),
    ]

    arranged = arrange([*company, project], near)

    assert [hit.memory_id for hit in arranged] == [ids[0], ids[2], ids[3]]
    assert [folded.memory_id for folded in arranged[0].folded] == [ids[1]]
    assert arranged[0].score == 0.9
