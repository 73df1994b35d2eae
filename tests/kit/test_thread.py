from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kit import Content, Event, Thread
from tests.kit.test_content import CONTENTS

EVENTS = st.builds(Event, role=st.sampled_from(["system", "user", "assistant", "tool"]), content=CONTENTS)
THREADS = st.builds(Thread, events=st.lists(EVENTS, max_size=4).map(tuple))


@pytest.mark.req("KIT-9")
@given(THREADS, EVENTS)
def test_adding_gives_a_new_thread_and_leaves_the_old_one_as_it_was(thread: Thread, event: Event) -> None:
    before = thread.model_dump_json()

    longer = thread.add_event(event)

    assert longer is not thread
    assert longer.events == (*thread.events, event)
    assert thread.model_dump_json() == before


@given(THREADS, st.lists(EVENTS, max_size=3))
def test_adding_several_is_adding_one_after_the_other(thread: Thread, events: list[Event]) -> None:
    one_by_one = thread
    for event in events:
        one_by_one = one_by_one.add_event(event)

    assert thread.add_events(events) == one_by_one


@given(THREADS)
def test_a_thread_survives_json(thread: Thread) -> None:
    assert Thread.model_validate_json(thread.model_dump_json()) == thread


@given(THREADS, st.text())
def test_a_system_prompt_replaces_the_one_before_and_nothing_else(thread: Thread, prompt: str) -> None:
    prompted = thread.with_system(prompt)

    assert prompted.system == prompt
    assert [event for event in prompted if event.role != "system"] == [e for e in thread if e.role != "system"]
    assert prompted.with_system(prompt) == prompted


@pytest.mark.parametrize(
    "said", ["hi", Content.of("hi"), Event.user("hi"), [Event.user("hi")], Thread.from_user("hi"), ["hi"]]
)
def test_whatever_a_user_says_is_a_thread(said: Any) -> None:
    assert Thread.of(said) == Thread.from_user("hi")


@pytest.mark.parametrize("said", [42, None, [42], [Event.user("hi"), 42]])
def test_what_nobody_can_say_is_refused(said: Any) -> None:
    with pytest.raises(TypeError):
        Thread.of(said)


def test_a_thread_is_a_sequence_of_events() -> None:
    thread = Thread.from_system("be kind").add_events([Event.user("hi"), Event.assistant("hello")])

    assert [event.role for event in thread] == ["system", "user", "assistant"]
    assert thread[1].text == "hi"
    assert thread[:2] == Thread.from_system("be kind").add_event(Event.user("hi"))
    assert thread.last == Event.assistant("hello")
    assert (len(thread), Thread().last, Thread().system) == (3, None, None)
