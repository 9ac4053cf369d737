"""`map` and `submit_many` when items fail: which results arrive, which error comes, and what names the item."""

from __future__ import annotations

import concurrent.futures
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

TEXT = """
func.func @double(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
util.global private mutable @calls = dense<0> : tensor<i32>
func.func @counted(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<i32>) {
  %one = arith.constant dense<1> : tensor<i32>
  %old = util.global.load @calls : tensor<i32>
  %new = arith.addi %old, %one : tensor<i32>
  util.global.store %new, @calls : tensor<i32>
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y, %new : tensor<?x4xf32>, tensor<i32>
}
util.func private @checked(%x: tensor<?x4xf32>) -> %x
func.func @commanded(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %b = arith.addf %x, %x : tensor<?x4xf32>
  %y = util.call @checked(%b) : (tensor<?x4xf32>) -> %b
  return %y : tensor<?x4xf32>
}
"""
GOOD = [np.full((1 + k % 3, 4), k, np.float32) for k in range(12)]
WRONG_SHAPE = np.zeros((2, 5), np.float32)


def refuse_negative(context: Any, x: Any) -> None:
    first = np.asarray(x if isinstance(x, np.ndarray) else x.numpy())[0, 0]
    if first < 0:
        raise ValueError(f"negative: {first}")


def loaded(name: str) -> Any:
    target = {"cpu?workers=2": "cpu", "ptx-interpreter": "cuda"}.get(name, "vulkan")
    device = pd.device(name)
    device.add_command("checked", refuse_negative, synchronous=True)
    return device.load(pd.compile(TEXT, targets=target))


@pytest.fixture(params=["cpu?workers=2", "ptx-interpreter", "vulkan:0"], scope="module")
def program(request: pytest.FixtureRequest) -> Any:
    return loaded(request.param)


def with_bad(*places: int) -> list[Any]:
    return [WRONG_SHAPE if k in places else x for k, x in enumerate(GOOD)]


def check_results(results: list[Any], bad: tuple[int, ...]) -> None:
    assert len(results) == len(GOOD)
    for k, (result, x) in enumerate(zip(results, GOOD, strict=True)):
        if k in bad:
            assert isinstance(result, pd.InvalidArgumentError) and result.item == k  # type: ignore[attr-defined]
            assert str(result).startswith(f"item {k}: ") and "5" in str(result)
        else:
            np.testing.assert_array_equal(np.asarray(result), 2 * x)


def test_results_before_a_bad_item_arrive(program: Any) -> None:
    taken: list[Any] = []
    with pytest.raises(pd.InvalidArgumentError, match=r"^item 7: ") as caught:
        for result in program.double.map(with_bad(7, 9), in_flight=5):
            taken.append(np.asarray(result))
    assert len(taken) == 7 and caught.value.item == 7  # type: ignore[attr-defined]
    for result, x in zip(taken, GOOD, strict=False):
        np.testing.assert_array_equal(result, 2 * x)


@pytest.mark.parametrize("bad", [(), (0,), (11,), (3, 4, 10), tuple(range(12))])
def test_errors_take_the_places_of_results(program: Any, bad: tuple[int, ...]) -> None:
    check_results(list(program.double.map(with_bad(*bad), on_error="return")), bad)
    check_results(program.double.submit_many(with_bad(*bad), on_error="return").result(60), bad)


def test_procedures_return_errors_too(program: Any) -> None:
    results = program.counted.submit_many(with_bad(1, 5), on_error="return").result(60)
    assert [k for k, result in enumerate(results) if isinstance(result, pd.InvalidArgumentError)] == [1, 5]
    assert results[5].item == 5
    np.testing.assert_array_equal(np.asarray(results[11][0]), 2 * GOOD[11])


def test_a_refused_item_is_named_before_any_call(program: Any) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"^item 4: ") as caught:
        program.double.submit_many(with_bad(4, 6)).result(60)
    assert caught.value.item == 4  # type: ignore[attr-defined]


def test_errors_of_the_iterable_come_after_its_results(program: Any) -> None:
    def items() -> Iterator[Any]:
        yield from GOOD[:3]
        raise LookupError("no more files")

    results = program.double.map(items(), in_flight=8, on_error="return")
    assert [np.asarray(next(results)).shape for _ in range(3)] == [x.shape for x in GOOD[:3]]
    with pytest.raises(LookupError, match=r"^no more files$"):
        next(results)


def test_what_a_host_command_raises(program: Any) -> None:
    items = [-x if k in (2, 8) else x for k, x in enumerate(GOOD)]
    for results in (
        list(program.commanded.map(items, on_error="return")),
        program.commanded.submit_many(items, on_error="return").result(60),
    ):
        failed = [result for result in results if isinstance(result, pd.CommandError)]
        assert [error.item for error in failed] == [2, 8]  # type: ignore[attr-defined]
        assert all(str(error).startswith(f"item {error.item}: ") for error in failed)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(np.asarray(results[9]), 2 * GOOD[9])


def test_a_long_job_with_three_bad_items() -> None:
    program = loaded("cpu?workers=2")
    count, bad = 20_000, (17, 9_000, 19_999)
    items = [WRONG_SHAPE if k in bad else GOOD[k % len(GOOD)] for k in range(count)]
    results = list(program.double.map(items, on_error="return"))
    assert len(results) == count
    errors = [result for result in results if isinstance(result, pd.Error)]
    assert tuple(error.item for error in errors) == bad  # type: ignore[attr-defined]
    results = [(k, result) for k, result in enumerate(results) if not isinstance(result, pd.Error)]
    for k, result in results:
        np.testing.assert_array_equal(result, 2 * GOOD[k % len(GOOD)])


@pytest.mark.parametrize("on_error", ["ignore", None, True])
def test_other_words_are_refused(program: Any, on_error: Any) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="on_error: expected 'raise' or 'return', got"):
        program.double.submit_many(GOOD, on_error=on_error)
    with pytest.raises(pd.InvalidArgumentError, match="on_error: expected 'raise' or 'return', got"):
        program.double.map(GOOD, on_error=on_error)


def test_items_that_are_not_iterable_are_refused(program: Any) -> None:
    for start in (program.double.submit_many, program.double.map, program.counted.submit_many):
        with pytest.raises(pd.InvalidArgumentError, match=r"items: expected an iterable with the arguments.*, got 5"):
            start(5)


class RowError(Exception):
    """An exception that `copy.copy` cannot copy, as `__init__` takes other arguments than `args`."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row}: {reason}")
        self.row = row


class PlaceError(Exception):
    """An exception whose index cannot be set."""

    @property
    def item(self) -> str:
        return "shelf"


def failed_with(error: BaseException) -> concurrent.futures.Future[Any]:
    """Return the future of work of the caller that has failed."""

    def fail() -> None:
        raise error from LookupError("no such file")

    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        return threads.submit(fail)


def jobs(function: Any, items: list[Any]) -> list[list[Any]]:
    """Return the outcomes of both kinds of jobs."""
    return [
        list(function.map(items, on_error="return")),
        function.submit_many(items, on_error="return").result(60),
    ]


@pytest.mark.parametrize(
    "error",
    [
        KeyError("row 17"),
        pd.MissingImportError("no provider", ["f"]),
        FileNotFoundError(2, "no such file", "x"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        RowError(17, "bad"),
    ],
)
def test_items_that_share_a_failed_future_have_errors_of_their_own(program: Any, error: Exception) -> None:
    row = failed_with(error)
    before = (error.args, str(error), dict(vars(error)))
    for outcomes in jobs(program.double, [GOOD[0], row, GOOD[1], row]):
        assert [(k, e.item) for k, e in enumerate(outcomes) if isinstance(e, Exception)] == [(1, 1), (3, 3)]
        for k in (1, 3):
            copied = outcomes[k]
            assert type(copied) is type(error) and copied is not error and copied.__cause__ is error.__cause__
            assert {**vars(copied), "item": 0} == {**before[2], "item": 0}
            assert copied.args[1:] == error.args[1:]
            assert traceback.extract_tb(copied.__traceback__)[-1].name == "fail"
            if isinstance(error.args[0], str):
                assert copied.args[0] == f"item {k}: {error.args[0]}"
    assert (error.args, str(error), dict(vars(error))) == before


def test_the_error_of_an_earlier_job_names_the_item_of_this_one(program: Any) -> None:
    row = failed_with(jobs(program.double, with_bad(4))[1][4])
    for outcomes in jobs(program.double, [GOOD[0], row]):
        assert outcomes[1].item == 1 and str(outcomes[1]).startswith("item 1: item 4: ")
    assert row.exception().item == 4  # type: ignore[union-attr]


def test_errors_that_cannot_have_an_index_stay_what_they_are(program: Any) -> None:
    error = PlaceError("bad")
    for outcomes in jobs(program.double, [GOOD[0], failed_with(error)]):
        assert outcomes[1] is error and error.args == ("bad",)


def test_the_first_error_is_among_the_outcomes(program: Any) -> None:
    error = KeyError("row 17")
    with pytest.raises(KeyError, match="item 1: row 17") as caught:
        program.double.submit_many([GOOD[0], failed_with(error)]).result(60)
    assert caught.value.outcomes[1] is caught.value and not hasattr(error, "outcomes")  # type: ignore[attr-defined]
