"""Pages that requests share, evict and give up: answers are those of the requests alone."""

from __future__ import annotations

import pytest
from clock import gated
from fake_program import FakeProgram, expected
from leaks import check_no_leaks

from pydispatch.generate import Engine
from pydispatch.generate.scheduler import Scheduler
from pydispatch.generate.sequence import TokenSequence


def test_equal_prefixes_share_pages() -> None:
    program = FakeProgram()
    with Engine(program) as engine:
        prompt = [9] * 21
        assert engine.submit(prompt, max_new_tokens=2).result().reused_tokens == 0
        prefills = engine.statistics().prefills
        again = engine.submit(prompt, max_new_tokens=3).result()
        assert again.reused_tokens == 20 and list(again.tokens) == expected(prompt, 3)
        assert engine.statistics().prefills == prefills + 1
        longer = engine.submit([*prompt[:14], 1, 2, 3], max_new_tokens=3).result()
        assert longer.reused_tokens == 12 and longer.prompt_tokens == 17
        whole = engine.submit(prompt[:20], max_new_tokens=3).result()
        assert whole.reused_tokens == 16, "the last token of a prompt is computed"
        assert engine.submit([8, *prompt], max_new_tokens=1).result().reused_tokens == 0
        other = engine.submit([9, 9, 9, 1, *prompt], max_new_tokens=2).result()
        assert other.reused_tokens == 0, "equal pages after other pages are not equal"
    check_no_leaks(engine, program)


def test_requests_that_run_at_once_share_pages() -> None:
    program = FakeProgram(rows=3, page_count=14, table_pages=13)
    prompt = [4] * 33  # 9 pages: two of them would not fit without sharing
    with Engine(program) as engine, gated(program) as gate:
        handles = [engine.submit([*prompt, tail], max_new_tokens=3) for tail in range(3)]
        gate.wait()
        gate.let(10)
        gate.open()
        for tail, handle in enumerate(handles):
            assert list(handle.result().tokens) == expected([*prompt, tail], 3)
    assert [handle.result().reused_tokens for handle in handles] == [0, 32, 32]
    check_no_leaks(engine, program)


def test_the_least_recently_used_pages_are_evicted() -> None:
    program = FakeProgram(page_count=7, table_pages=6)
    with Engine(program) as engine:
        for token in (1, 2, 1, 3):  # 3 pages each, two of which are full; there are 6
            engine.submit([token] * 9, max_new_tokens=1).result()
        assert engine.submit([1] * 9, max_new_tokens=1).result().reused_tokens == 8
        assert engine.submit([2] * 9, max_new_tokens=1).result().reused_tokens == 4
    check_no_leaks(engine, program)


def test_pages_of_answers_are_reused_by_the_request_itself_only() -> None:
    """decode may round differently than prefill: an answer in a later prompt is computed by prefill."""
    program = FakeProgram()
    with Engine(program) as engine:
        answer = engine.submit([1] * 8, max_new_tokens=9).result()
        turn = [*[1] * 8, *answer.tokens, 5]
        assert engine.submit(turn, max_new_tokens=1).result().reused_tokens == 8
        assert engine.submit(turn, max_new_tokens=1).result().reused_tokens == 16


def test_preempted_requests_give_the_same_answers() -> None:
    program = FakeProgram(rows=4, page_count=11, table_pages=10)
    requests = [([token] * 5, {"max_new_tokens": 30, "temperature": 1.0, "seed": token}) for token in range(6)]
    with Engine(program) as engine:
        with gated(program):  # none ends before the last one is submitted
            handles = [engine.submit(prompt, **arguments) for prompt, arguments in requests]
        for (prompt, arguments), handle in zip(requests, handles, strict=True):
            assert list(handle.result().tokens) == expected(prompt, **arguments) == list(handle)
    assert engine.statistics().preemptions >= 3
    check_no_leaks(engine, program)


def test_the_youngest_request_is_preempted_also_while_its_prompt_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    preempted: list[int] = []
    preempt = Scheduler._preempt

    def record(scheduler: Scheduler, sequence: TokenSequence) -> None:
        preempted.append(sequence.order)
        preempt(scheduler, sequence)

    monkeypatch.setattr(Scheduler, "_preempt", record)
    program = FakeProgram(page_count=9, table_pages=8, chunk=1)
    with Engine(program) as engine:
        with gated(program) as gate:
            first = engine.submit([1] * 4, max_new_tokens=24)
            gate.wait()
            second = engine.submit([2] * 20, max_new_tokens=2)
        assert list(first.result().tokens) == expected([1] * 4, 24)
        assert list(second.result().tokens) == expected([2] * 20, 2)
    assert preempted and set(preempted) == {1}
    check_no_leaks(engine, program)


def test_a_request_that_would_be_preempted_at_once_does_not_start() -> None:
    program = FakeProgram(page_count=9, table_pages=8)
    with Engine(program) as engine:
        handles = [engine.submit([token] * 16, max_new_tokens=8) for token in range(3)]
        for token, handle in enumerate(handles):
            assert list(handle.result().tokens) == expected([token] * 16, 8)
    assert engine.statistics().preemptions == 0
    check_no_leaks(engine, program)
