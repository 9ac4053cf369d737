"""The arguments with which bench/python_kernels calls each kernel: sizes of a last-level cache and beyond."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

ELEMENTS = 1 << 22
"""Elements of vectors: 16 MiB of f32."""
random = np.random.default_rng(1)  # seeded, so that every run measures the same values


@dataclass(frozen=True)
class Work:
    """Call of a kernel.

    Attributes:
        file: The file of examples/python_kernels with the kernel.
        arguments: Arrays and numbers, in the order of the kernel's parameters.
        scratch: Positions of arrays that only our kernel uses: zeros before each of its calls, and not compared.
        restored: Positions of arrays that each call reads and changes; they are restored before each call of all
            contenders.
        result: Function of an array that a kernel wrote; what it returns is compared between contenders.
    """

    file: str
    arguments: tuple[Any, ...]
    scratch: tuple[int, ...] = ()
    restored: tuple[int, ...] = ()
    result: Callable[[np.ndarray], np.ndarray] = np.asarray


def floats(*shape: int) -> np.ndarray:
    """Return normally distributed f32."""
    return random.standard_normal(shape, np.float32)


def empty(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return zeros for results; unlike those of np.zeros, their pages are mapped before the first call."""
    return np.full(shape, 0, dtype)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    """Return random integers from `low` to `high` - 1."""
    return random.integers(low, high, shape).astype(dtype)


def saxpy() -> Work:
    """Build a call with two vectors of ELEMENTS."""
    return Work("kernels", (np.float32(1.0001), floats(ELEMENTS), floats(ELEMENTS)))


def swish() -> Work:
    """Build a call with vectors of ELEMENTS."""
    return Work("kernels", (floats(ELEMENTS), empty(ELEMENTS), np.float32(1.5)))


def histogram() -> Work:
    """Build a call with ELEMENTS integers, each in one of 256 bins."""
    return Work("kernels", (integers(0, 256, ELEMENTS), empty(256, dtype=np.int32)))


def philox() -> Work:
    """Build a call that draws 1 Mi blocks of four words."""
    return Work("philox", (np.uint32(7), np.uint32(9), empty(1 << 20, 4, dtype=np.uint32)))


def inverses() -> Work:
    """Build a call with 256 Ki matrices of 3x3, whose large diagonals make them invertible."""
    return Work("inverses", (floats(1 << 18, 3, 3) + 4 * np.eye(3, dtype=np.float32), empty(1 << 18, 3, 3)))


def rotary_embedding() -> Work:
    """Build a call with 2048 tokens of 16 heads of 128."""
    return Work("rotary_embedding", (floats(2048, 16, 128), np.arange(2048, dtype=np.int32), empty(2048, 16, 128)))


def softmax() -> Work:
    """Build a call with 2048 rows of 1000."""
    return Work("kernels", (floats(2048, 1000), empty(2048, 1000)))


def cross_entropy() -> Work:
    """Build a call with 2048 rows of 1000 and a label for each row."""
    return Work("cross_entropy", (floats(2048, 1000), integers(0, 1000, 2048), empty(2048), empty(2048, 1000)))


def layer_norm() -> Work:
    """Build a call with 2048 rows of 1000."""
    return Work("layer_norm", (floats(2048, 1000), floats(1000), floats(1000), empty(2048, 1000)))


def layer_norm_backward() -> Work:
    """Build a call of the gradients of a layer norm; the kernel adds to those of scale and bias."""
    rows = floats(2048, 1000), floats(1000), floats(2048, 1000)
    return Work("layer_norm", (*rows, empty(2048, 1000), empty(1000), empty(1000)), restored=(4, 5))


def top_k() -> Work:
    """Build a call for the 8 largest elements of 8192 rows of 128."""
    return Work("top_k", (floats(1 << 13, 128), empty(1 << 13, 8), empty(1 << 13, 8, dtype=np.int32)))


def bitonic_sort() -> Work:
    """Build a call with 8192 rows of 128."""
    return Work("bitonic_sort", (floats(1 << 13, 128), empty(1 << 13, 128), empty(1 << 13, 128, dtype=np.int32)))


def blur() -> Work:
    """Build a call with an image of 2048x2048."""
    return Work("kernels", (floats(2048, 2048), empty(2048, 2048)))


def heat() -> Work:
    """Build a call with a grid of 2048x2048 and a rate of 0.2."""
    return Work("stencil", (floats(2048, 2048), empty(2048, 2048), np.float32(0.2)))


def mandelbrot() -> Work:
    """Build a call with 1024x1536 points, 1/512 apart."""
    return Work("mandelbrot", (empty(1024, 1536, dtype=np.int32), np.float32(1 / 512)))


def prefix_sums() -> Work:
    """Build a call with ELEMENTS, which the kernel sums in blocks of 128."""
    return Work("kernels", (floats(ELEMENTS), empty(ELEMENTS)))


def prefix_sum() -> Work:
    """Build a call with integers, whose sums are equal in any order of additions."""
    # Our kernel's scratch: a state for each block of 1 << 14 elements, and a counter that numbers blocks.
    x = integers(0, 100, ELEMENTS)
    blocks, ticket = empty(ELEMENTS // (1 << 14), dtype=np.int32), empty(1, dtype=np.int32)
    return Work("prefix_sum", (x, np.zeros_like(x), blocks, ticket), scratch=(2, 3))


def segmented_sum() -> Work:
    """Build a call with sorted segments of about 64 elements; the kernel adds to their sums."""
    segments = np.sort(integers(0, ELEMENTS // 64, ELEMENTS))
    return Work("segmented_sum", (floats(ELEMENTS), segments, empty(ELEMENTS // 64)), restored=(2,))


def accelerations() -> Work:
    """Build a call with 4096 bodies."""
    return Work("n_body", (random.random((4096, 4), np.float32), empty(4096, 3)))


def nearest_centre() -> Work:
    """Build a call with 512 Ki points and 16 centres; the kernel writes the nearest centre and its distance."""
    points, centres = floats(1 << 19, 3), floats(16, 3)
    return Work("nearest_centre", (points, centres, empty(1 << 19, dtype=np.int32), empty(1 << 19)))


def matmul() -> Work:
    """Build a call with matrices of 512x512."""
    return Work("kernels", (floats(512, 512), floats(512, 512), empty(512, 512)))


def product_with_epilogue() -> Work:
    """Build a call with matrices of 512x512 and a bias."""
    return Work("product_with_epilogue", (floats(512, 512), floats(512, 512), floats(512), empty(512, 512)))


def grouped_product() -> Work:
    """Build a call of three products of different sizes."""
    sizes = (256, 512, 384), (512, 128, 512), (100, 333, 250)
    a, b, y = zip(*((floats(m, k), floats(k, n), empty(m, n)) for m, k, n in sizes), strict=True)
    return Work("grouped_product", (*a, *b, *y))


def scaled_product() -> Work:
    """Build a call with matrices of 8-bit floats that have a scale for each 32 columns of a row."""
    a, b = (floats(512, 512).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    # Powers of two, one for each 32 columns of a row.
    a_scales, b_scales = (np.exp2(integers(-9, -5, 512, 16)).astype(np.float32) for _ in range(2))
    return Work("scaled_product", (a, a_scales, b, b_scales, empty(512, 512)))


def int4_product() -> Work:
    """Build a call with 4096x4096 weights of 4 bits and a vector."""
    packed = integers(0, 256, 4096, 2048, dtype=np.uint8)  # two weights of 4 bits in a byte, along a row
    scales = floats(4096, 128)  # of each row, one for every 32 columns
    return Work("int4_product", (packed, scales, floats(4096), empty(4096)))


def int4_matmul() -> Work:
    """Build a call with 64 rows of f32 and 1024x1024 weights of 4 bits."""
    packed = integers(0, 256, 512, 1024, dtype=np.uint8)  # two weights of 4 bits in a byte, along a column
    scales = floats(32, 1024)  # of each column, one for every 32 rows
    return Work("int4_matmul", (floats(64, 1024), packed, scales, empty(64, 1024)))


def embedding_bag() -> Work:
    """Build a call with 4096 bags, each the mean of 32 rows of a table."""
    numbers, starts = integers(0, 1 << 16, 1 << 17, dtype=np.int64), np.arange(0, 1 << 17, 32)
    return Work("embedding_bag", (floats(1 << 16, 64), numbers, starts, empty(len(starts), 64)))


def gathered_rows() -> Work:
    """Build a call that copies 16 Ki of 32 Ki rows of 256."""
    return Work("gathered_rows", (floats(1 << 15, 256), integers(0, 1 << 15, 1 << 14), empty(1 << 14, 256)))


def scattered_rows() -> Work:
    """Build a call of the gradient of gathered rows: rows are added to a table, which begins as zeros."""
    table = empty(1 << 15, 256)
    return Work("gathered_rows", (floats(1 << 14, 256), integers(0, 1 << 15, 1 << 14), table))


def sparse_product() -> Work:
    """Build a call with a sparse matrix, in CSR with 0 to 63 elements in a row, and a dense one."""
    counts = integers(0, 64, 4096)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    columns = integers(0, 4096, int(starts[-1]))
    return Work("sparse_product", (starts, columns, floats(len(columns)), floats(4096, 256), empty(4096, 256)))


def connected_components() -> Work:
    """Build a call with a random graph of as many edges as vertices; each vertex begins as its own parent."""
    vertices = 1 << 17
    edges = integers(0, vertices, vertices, 2)
    parents = np.arange(vertices, dtype=np.int32)
    # A call changes the parents. Contenders may build different trees, so that only the roots are compared.
    return Work("connected_components", (edges, parents), restored=(1,), result=roots_of)


def roots_of(parents: np.ndarray) -> np.ndarray:
    """Return the root of each vertex's tree: parents depend on the order in which edges are joined, roots do not."""
    above = parents[parents]
    return parents if np.array_equal(above, parents) else roots_of(above)


def attention_arguments(tokens: int, heads: int = 8, groups: int = 2, size: int = 16) -> tuple[np.ndarray, ...]:
    """Return queries, keys, values, the result of causal attention, its gradient, and the logarithms of the sums.

    Arrays are (heads, tokens, size), keys and values (groups, tokens, size): heads / groups heads share one of them.
    The sums are those of a query's exponentials, (heads, tokens).
    """
    q, dy = floats(2, heads, tokens, size)
    k, v = floats(2, groups, tokens, size)
    every_k, every_v = (np.repeat(array, heads // groups, axis=0) for array in (k, v))
    scores = np.where(np.tri(tokens, dtype=bool), q @ every_k.transpose(0, 2, 1) / np.sqrt(size), -np.inf)
    log_sums = np.log(np.exp(scores).sum(2))
    y = np.exp(scores - log_sums[:, :, None]) @ every_v
    return q, k, v, y.astype(np.float32), dy, log_sums.astype(np.float32)


def attention() -> Work:
    """Build a call with 1024 tokens; the kernel writes the result and the logarithms of the sums."""
    q, k, v, y, _, log_sums = attention_arguments(tokens=1024)
    return Work("flash_attention", (q, k, v, np.zeros_like(y), np.zeros_like(log_sums)))


def attention_of_queries() -> Work:
    """Build a call of the gradient of the queries."""
    arguments = attention_arguments(tokens=1024)
    return Work("flash_attention", (*arguments, np.zeros_like(arguments[0])))


def attention_of_keys() -> Work:
    """Build a call of the gradients of the keys and values."""
    arguments = attention_arguments(tokens=1024)
    return Work("flash_attention", (*arguments, np.zeros_like(arguments[1]), np.zeros_like(arguments[2])))


WORKS = {
    work.__name__: work
    for work in (
        saxpy, swish, histogram, philox, inverses, rotary_embedding, softmax, cross_entropy, layer_norm,
        layer_norm_backward, top_k, bitonic_sort, blur, heat, mandelbrot, prefix_sums, prefix_sum, segmented_sum,
        accelerations, nearest_centre, matmul, product_with_epilogue, grouped_product, scaled_product,
        int4_product, int4_matmul, embedding_bag, gathered_rows, scattered_rows, sparse_product,
        connected_components, attention, attention_of_queries, attention_of_keys,
    )
}  # fmt: skip
"""Function of each kernel that builds its call."""
