"""The choice of tokens of `examples/llm/sampling.py`, against probabilities that NumPy computes by sorting."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from sampling import sample, threefry

import pydispatch as pd

WORDS, ROWS = 24, 1500
RNG = np.random.default_rng(1)
SCORES = RNG.standard_normal(WORDS).astype(np.float32) * 2
FACTORS, NUMBERS = pd.f32["s"], pd.i32["s"]


@pd.program
def draw(
    scores: Annotated[Any, pd.f32["s", WORDS]],
    positions: Annotated[Any, pd.i32["s"]],
    temperature: Annotated[Any, pd.f32["s"]],
    top_k: Annotated[Any, pd.i32["s"]],
    top_p: Annotated[Any, pd.f32["s"]],
    seeds: Annotated[Any, pd.i32["s"]],
) -> Any:
    return sample(scores, positions, temperature, top_k, top_p, seeds)


@pytest.fixture(scope="module")
def program() -> Any:
    return pd.device("cpu").load(pd.compile(draw, targets="cpu"))


@pytest.fixture(scope="module")
def drawn(program: Any) -> Any:
    def call(temperature: float, top_k: int, top_p: float, seeds: Any, positions: Any = 0) -> Any:
        rows = len(seeds)
        return program.draw(
            np.tile(SCORES, (rows, 1)), np.full(rows, positions, np.int32), np.full(rows, temperature, np.float32),
            np.full(rows, top_k, np.int32), np.full(rows, top_p, np.float32), np.asarray(seeds, np.int32),
        )  # fmt: skip

    return call


def probabilities(temperature: float, top_k: int, top_p: float) -> np.ndarray[Any, Any]:
    """Return the probabilities of all words: the best k, of these the fewest that have the share top_p."""
    scaled = SCORES.astype(np.float64) / temperature
    order = np.argsort(-scaled)[: top_k or WORDS]
    shares = np.exp(scaled[order] - scaled.max())
    shares /= shares.sum()
    count = min(int(np.searchsorted(np.cumsum(shares), top_p)) + 1, len(order))
    result = np.zeros(WORDS)
    result[order[:count]] = shares[:count] / shares[:count].sum()
    return result


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (1.0, 5, 1.0), (1.5, 0, 0.8), (1.0, 8, 0.7), (1.0, 1, 1.0), (1.0, 0, 0.01),
     (1.0, 0, 1e-12), (2.0, 500, 0.999)],
)  # fmt: skip
def test_frequencies_are_those_of_the_distribution(drawn: Any, temperature: float, top_k: int, top_p: float) -> None:
    counts = np.bincount(drawn(temperature, top_k, top_p, np.arange(ROWS)), minlength=WORDS)
    expected = probabilities(temperature, top_k, top_p)
    assert not counts[expected == 0].any()
    deviation = np.sqrt(ROWS * expected * (1 - expected))
    assert (np.abs(counts - ROWS * expected) <= 4.5 * deviation + 1e-6).all()


def test_a_draw_depends_on_seed_and_position_alone(drawn: Any) -> None:
    seeds = np.arange(64)
    together = drawn(1.0, 0, 1.0, seeds, 7)
    assert [int(drawn(1.0, 0, 1.0, [seed], 7)[0]) for seed in seeds[:8]] == together[:8].tolist()
    assert (drawn(1.0, 0, 1.0, seeds, 8) != together).any()
    assert len(set(together.tolist())) > 3


def test_a_draw_is_the_same_beside_rows_with_limits(program: Any) -> None:
    """A call whose rows have no limits leaves out the passes that find them."""
    rows, zero, one = 64, np.zeros(64, np.int32), np.ones(64, np.float32)
    scores = np.random.default_rng(3).standard_normal((rows, WORDS)).astype(np.float32) * 3
    seeds, is_other = np.arange(rows, dtype=np.int32), np.arange(rows) % 2 == 1
    alone = program.draw(scores, zero, one, zero, one, seeds)
    greedy = program.draw(scores, zero, 0 * one, zero, one, seeds)
    top_k, top_p = np.where(is_other, 500, 0).astype(np.int32), np.where(is_other, 0.4, 1).astype(np.float32)
    beside = program.draw(scores, zero, np.where(seeds % 4 == 2, 0, one).astype(np.float32), top_k, top_p, seeds)
    assert (beside[seeds % 4 == 0] == alone[seeds % 4 == 0]).all()
    assert (beside[seeds % 4 == 2] == greedy[seeds % 4 == 2]).all()
    assert (greedy == scores.argmax(axis=1)).all() and (alone != greedy).any()


def test_temperature_0_is_the_best_score(drawn: Any) -> None:
    assert (drawn(0.0, 3, 0.5, [1, 2, 3]) == SCORES.argmax()).all()


def test_equal_scores_are_all_kept_or_none(program: Any) -> None:
    """Ties at the threshold of top-k are kept, as in `transformers`."""
    seeds, ones = np.arange(40, dtype=np.int32), np.ones(40, np.float32)
    scores = np.zeros((40, WORDS), np.float32)
    scores[:, [3, 9]] = 1
    got = program.draw(scores, 0 * seeds, ones, 0 * seeds + 1, ones, seeds)
    assert set(got.tolist()) == {3, 9}


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_numbers_of_random123(key: Any, counter: Any, expected: tuple[int, int]) -> None:
    words = [tuple(np.array([word], np.uint32) for word in pair) for pair in (key, counter)]
    assert tuple(int(word[0]) for word in threefry(words[0], words[1])) == expected
