"""Conversion of TfIdfVectorizer, for words that are given as integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import F32
from pydispatch.graph.sizes import Expr
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, products, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula

_MAX_SKIPS = 64  # largest attribute max_skip_count; each number of skipped words adds operations to the program
_MAX_COLUMN_MATRIX = 1 << 26
"""Maximum number of elements of the 0-1 matrix that moves the counts of n-grams to their columns; a node that needs a
larger one is an error."""


@ONNX.converts("TfIdfVectorizer")
def _tf_idf(call: NodeCall, x: Tensor) -> Tensor:
    """Return how often each n-gram of a pool occurs in x [words] or in each row of x [rows, words].

    An n-gram is a sequence of n words; a word is an integer. The result is [columns] or [rows, columns], where
    ngram_indexes states the column of each n-gram. The counts of all n-grams are computed first; a product with a 0-1
    matrix moves them to the columns. The mode "IDF" limits counts to 1, and "IDF" and "TFIDF" multiply them by weights.

    Example: pool_int64s = [2, 5, 2, 5, 5, 7] with ngram_counts = [0, 2] are the 1-grams (2), (5), from index 0 of the
    pool on, and the 2-grams (2, 5), (5, 7), from index 2 on. With ngram_indexes = [0, 3, 1, 2] and n-grams of 1 to 2
    words, x = [2, 5, 2] gives [2, 1, 0, 1]: 2 of (2), 1 of (2, 5), 0 of (5, 7) and 1 of (5).

    Raise CompileError for a pool of strings, for rows of a dynamic number of words, and for attributes that contradict
    each other or need too large a matrix.
    """
    b = call.b
    mode = call.text("mode", choices=("TF", "IDF", "TFIDF"))
    shortest, longest, skips = (call.integer(n) for n in ("min_gram_length", "max_gram_length", "max_skip_count"))
    # Index in the pool of the first n-gram of 1 word, of 2 words, ...; and the column of each n-gram, in pool order.
    begins, columns = call.integers("ngram_counts"), call.integers("ngram_indexes")
    if call.has("pool_strings"):
        raise call.fail(
            "its pool is of strings, which no device computes with; look words up before the model is called"
        )
    pool = call.integers("pool_int64s")  # the words of all n-grams, one n-gram after the other
    words = x.shape[-1] if x.rank in (1, 2) else None
    if words is None or isinstance(words, Expr):
        raise call.fail(f"its operand is {x}; expected one or two axes, the last of a known size")
    if not 1 <= shortest <= longest <= len(begins) or not 0 <= skips <= _MAX_SKIPS:
        raise call.fail(
            f"it has {len(begins)} lengths of n-grams, of which {shortest} to {longest} count, {skips} skips"
        )
    size = _result_columns(call, columns)
    rows = x if x.rank == 2 else shapes.expand_dims(b, x, axes=[0])
    # For each length of n-grams: their counts [rows, n-grams], and the 0-1 matrix [n-grams, size] of their columns.
    counts, matrices = [], []
    for length, (grams, own_columns) in enumerate(_pool_by_length(call, pool, begins, columns), 1):
        if shortest <= length <= longest and len(grams):
            # Up to `skips` words may be skipped between adjacent words of an n-gram, if it fits into a row at all.
            steps = range(1, skips + 2) if length > 1 else [1]
            counts.append(_count_grams(call, rows, words, grams, [s for s in steps if (length - 1) * s < words]))
            matrices.append(np.zeros((len(grams), size)))
            matrices[-1][np.arange(len(grams)), own_columns] = 1  # for each n-gram (row) in its column of the result
    if not counts:
        raise call.fail(f"its pool has no n-gram of {shortest} to {longest} words")
    total = products.matmul(b, slicing.concat(b, counts, axis=1), b.constant(np.concatenate(matrices), F32))
    if mode != "TF":
        total = _weighted(call, total, columns, limits_counts=mode == "IDF")
    call.ignore("weights")  # an attribute that is not read is an error; the mode "TF" permits weights
    return total if x.rank == 2 else shapes.squeeze(b, total, axes=[0])


def _result_columns(call: NodeCall, columns: Sequence[int]) -> int:
    """Return the number of columns of the result, in which the n-grams have the indices `columns`.

    Raise CompileError if an index is negative, or the 0-1 matrix of the columns of all n-grams is too large.
    """
    size = max(columns, default=0) + 1
    if min(columns, default=-1) < 0 or size * len(columns) > _MAX_COLUMN_MATRIX:
        raise call.fail(
            f"its {len(columns)} n-grams are counted in columns {min(columns, default=0)} to {size - 1}; expected "
            f"columns from 0 on, and at most {_MAX_COLUMN_MATRIX} for the number of n-grams times that of columns"
        )
    return size


def _weighted(call: NodeCall, total: Tensor, columns: Sequence[int], limits_counts: bool) -> Tensor:
    """Return the counts of n-grams [rows, columns] times the attribute `weights`, which has one for each n-gram.

    columns: column of each n-gram, in the order of the pool. limits_counts: whether counts are limited to 1 before.
    """
    weights = call.reals("weights", [1.0] * len(columns))
    column_weights = np.ones(max(columns, default=0) + 1)
    column_weights[columns] = weights
    weight = call.b.constant(column_weights, F32)
    return formula(call.b, lambda n, w: (n.min(1.0) if limits_counts else n) * w, total, weight)


def _pool_by_length(
    call: NodeCall, pool: Sequence[int], begins: Sequence[int], columns: Sequence[int]
) -> Iterator[tuple[np.ndarray, Sequence[int]]]:
    """Yield the n-grams [count, words] of 1 word, of 2 words, ..., and the column of each of them.

    Example: the pool [2, 5, 2, 5, 5, 7] with begins [0, 2] and columns [0, 3, 1, 2] gives [[2], [5]] with [0, 3], then
    [[2, 5], [5, 7]] with [1, 2].

    Args:
        call: The node.
        pool: The words of all n-grams, one n-gram after the other.
        begins: Index in the pool of the first n-gram of each length.
        columns: Column of each n-gram, in pool order.

    Raises:
        CompileError: A range of the pool is no whole number of n-grams, or there are fewer columns than n-grams.
    """
    gram_count = 0  # n-grams that are shorter than those of the current length
    for length, (begin, end) in enumerate(zip(begins, [*begins[1:], len(pool)], strict=True), 1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise call.fail(
                f"its n-grams of {length} words begin at {begin} and end at {end} in a pool of {len(pool)} words"
            )
        grams = np.array(pool[begin:end], np.int64).reshape(-1, length)
        if len(columns) < gram_count + len(grams):
            raise call.fail(
                f"its pool has at least {gram_count + len(grams)} n-grams, and ngram_indexes has {len(columns)} columns"
            )
        yield grams, columns[gram_count : gram_count + len(grams)]
        gram_count += len(grams)


def _count_grams(call: NodeCall, rows: Tensor, words: int, grams: np.ndarray, steps: list[int]) -> Tensor:
    """Return how often each n-gram occurs in each row, as [rows, n-grams] in f32.

    Args:
        call: The node.
        rows: Texts, [rows, words].
        words: Number of words of a row.
        grams: The n-grams, [n-grams, n].
        steps: Allowed distances in a row between adjacent words of an n-gram; the same for all words of an occurrence.
            With step 2, the row [7, 1, 8, 2, 9] has the n-gram (7, 8, 9).
    """
    b, length = call.b, grams.shape[1]
    total = shapes.full(b, 0.0, (rows.shape[0], len(grams)), F32)
    for step in steps:
        window_count = words - (length - 1) * step  # positions in a row at which an occurrence may begin
        # For each n, word n of all windows [rows, windows, 1] and word n of all n-grams [n-grams]. They broadcast to
        # [rows, windows, n-grams]; the sum over the windows (axis 1) is the count.
        operands = []
        for n in range(length):
            part = slicing.slice_axis(b, rows, axis=1, start=n * step, limit=n * step + window_count)
            operands += [shapes.expand_dims(b, part, axes=[2]), b.constant(grams[:, n], rows.dtype)]

        def matches(*pairs: Element) -> Element:
            """Return 1 where all words are equal. In `pairs`, words of the row and of the n-gram alternate."""
            equal = pairs[0].is_equal(pairs[1])
            for u, v in zip(pairs[2::2], pairs[3::2], strict=True):
                equal = equal & u.is_equal(v)
            return equal.to(F32)

        total = elementwise.binary(
            b, "add", total, reductions.reduce(b, "add", formula(b, matches, *operands), axes=[1])
        )
    return total
