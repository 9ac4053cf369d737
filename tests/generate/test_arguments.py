"""Arguments of requests and engines that are refused, with their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clock import gated
from fake_program import FakeProgram, expected

import pydispatch as pd
from pydispatch.generate import Engine
from pydispatch.generate.arguments import sampling


@pytest.mark.parametrize(("arguments", "message"), [
    ({"prompt": []}, r"prompt: expected one token or more, as integers in one dimension, got \[\]"),
    ({"prompt": [1.5]}, "prompt: expected one token or more"),
    ({"prompt": [[1], [2, 3]]}, "prompt: expected one token or more"),
    ({"prompt": "text"}, "prompt: text needs a tokenizer; create the engine with tokenizer="),
    ({"prompt": "a\ud800"}, r"prompt: expected Unicode text, got '\\ud800' at position 1"),
    ({"prompt": [1, -1]}, "prompt: expected tokens from 0 to 2147483647, got -1"),
    ({"prompt": [2**31]}, "got 2147483648"),
    ({"max_new_tokens": 0}, "max_new_tokens: expected a number, at least 1, got 0"),
    ({"max_new_tokens": 64}, "a prompt of 1 tokens and max_new_tokens=64 exceed the limit of 64 tokens"),
    ({"temperature": -1}, "temperature: expected a number, at least 0, got -1"),
    ({"temperature": float("nan")}, "temperature: expected a number, at least 0, got nan"),
    ({"top_k": -1}, "top_k: expected a number of tokens, or 0 for all, got -1"),
    ({"top_k": 1.5}, "top_k: expected a number of tokens"),
    ({"top_p": 0}, "top_p: expected a probability above 0, up to 1, got 0"),
    ({"seed": 2**31}, "seed: expected an integer of 32 bits, got 2147483648"),
    ({"stop": "end"}, "stop: 'end' needs a tokenizer"),
    ({"stop": [""]}, "stop: expected tokens and strings that are not empty, got ''"),
    ({"stop": 1.5}, "stop: expected tokens and strings that are not empty, got 1.5"),
    ({"stop": [1.5]}, "stop: expected tokens and strings that are not empty, got 1.5"),
    ({"deadline": -1}, "deadline: expected seconds, at least 0, got -1"),
])  # fmt: skip
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with Engine(FakeProgram()) as engine, pytest.raises(pd.InvalidArgumentError, match=message):
        engine.submit(**{"prompt": [1], "max_new_tokens": 1, **arguments})


@pytest.mark.parametrize(("arguments", "message"), [
    ({"max_sequences": 5}, "max_sequences: the program takes at most 4, got 5"),
    ({"max_sequences": 0}, "max_sequences: expected a number, at least 1, got 0"),
    ({"max_tokens": 65}, "max_tokens: the program takes at most 64, got 65"),
    ({"max_queue": 0}, "max_queue: expected a number, at least 1, got 0"),
])  # fmt: skip
def test_wrong_limits(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=message):
        Engine(FakeProgram(), **arguments)


def test_sampling_is_in_the_range_of_f32() -> None:
    hot, narrow = sampling(10**400, 0, 1e-300, 0), sampling(0, 0, 1, 0)
    assert np.float32(hot.temperature) == np.finfo(np.float32).max and np.float32(hot.top_p) > 0
    assert (narrow.temperature, narrow.top_p) == (0, 1)


def test_limits_below_those_of_the_program() -> None:
    program = FakeProgram()
    with Engine(program, max_sequences=1, max_tokens=8) as engine, gated(program) as gate:
        handles = [engine.submit([1], max_new_tokens=7) for _ in range(3)]
        gate.wait()
        gate.let(2)
        assert engine.statistics().running == 1 and engine.statistics().waiting == 2
        with pytest.raises(pd.InvalidArgumentError, match="exceed the limit of 8 tokens"):
            engine.submit([1], max_new_tokens=8)
        gate.open()
        assert {handle.result().tokens for handle in handles} == {tuple(expected([1], 7))}


def test_programs_that_do_not_fit() -> None:
    def refused(message: str, **functions: Any) -> None:
        program = FakeProgram()
        program.functions.update(functions)
        program.functions = {name: value for name, value in program.functions.items() if value is not None}
        with pytest.raises(pd.InvalidArgumentError, match=message):
            Engine(program)

    refused("the program has no function 'prefill'; an engine needs prefill, decode and cache_shape", prefill=None)
    refused(
        r"prefill with tokens\[1, T\], decode with tokens\[S, 1\].*got .*tokens\[4, 1\]",
        prefill=FakeProgram()["decode"],
    )
    refused("page tables of equal width", decode=FakeProgram(table_pages=3)["decode"])
    refused(r"@cache_shape: expected two integers.*got int64\[1, 4\]", cache_shape=lambda: np.array([1, 4]))

    class Wrong:
        inputs = FakeProgram()["decode"].inputs

    wrong = Wrong()
    wrong.inputs[4].dtype = np.dtype(np.float64)
    refused("@decode: temperature: expected float32 of rank 1 with static sizes from 1, got float64", decode=wrong)
    wrong.inputs = FakeProgram()["decode"].inputs
    wrong.inputs[0].shape = ("s", 1)
    refused(r"@decode: tokens: expected int32 of rank 2 with static sizes from 1, got int32\['s', 1\]", decode=wrong)
    wrong.inputs = FakeProgram()["decode"].inputs
    wrong.inputs[0].shape = (0, 1)
    refused(r"@decode: tokens: expected int32 of rank 2 with static sizes from 1, got int32\[0, 1\]", decode=wrong)
    wrong.inputs = FakeProgram()["decode"].inputs[:7]
    refused("@decode: expected 8 arguments: tokens: int32.*; got 7", decode=wrong)
    wrong.inputs = FakeProgram()["decode"].inputs
    wrong.inputs[1].shape = (3,)
    refused("@decode: expected an equal number of rows in all arguments", decode=wrong)
