"""Index arithmetic of kernels folds by what is known of indices, and by nothing else."""

from __future__ import annotations

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder


@pytest.fixture
def build() -> Builder:
    block = Block(arg_types=[IndexType(), IndexType()])
    return Builder(block, func.FuncOp("f", ([IndexType(), IndexType()], []), Region(block)))


def test_a_size_is_not_negative_but_not_below_itself(build: Builder) -> None:
    size = build.assume_not_negative(build.block.args[0])
    assert build.less(size, 0) is False
    assert isinstance(build.quotient(size, size), SSAValue)
    assert isinstance(build.remainder(size, size), SSAValue)


def test_an_index_below_a_size_has_no_quotient_by_it(build: Builder) -> None:
    index, size = build.block.args
    build.assume_below(index, size)
    assert (build.quotient(index, size), build.remainder(index, size)) == (0, index)
    assert build.less(index, size) is True


def test_the_parts_of_a_linear_index_are_found_again(build: Builder) -> None:
    high, low = build.block.args
    linear = build.linear(high, 12, build.assume_below(low, 12))
    assert build.divmod(linear, 12) == (high, low)
    assert build.split(linear, []) == []
    assert build.split(linear, [1, 3])[0] == 0
