"""Index arithmetic of kernels folds by what is known of indices, and by nothing else."""

from __future__ import annotations

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.backends.cpu.target import BACKEND
from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.trial import probe
from pydispatch.compiler.kernels.ops.builder import Builder
from pydispatch.ir import parse


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


def test_what_a_branch_knows_holds_in_it_alone(build: Builder) -> None:
    group, size = build.block.args
    row = build.quotient(group, 2)
    build.assume_below(group, 100)

    def branch(inner: Builder) -> None:
        inner.assume_below(group, 4)
        inner.assume_below(row, size)
        assert inner.less(group, 10) is True
        assert inner.remainder(row, size) is row
        inner.loop(0, size, [], lambda loop, index, carried: [loop.assume_below(group, 3)][1:])
        assert inner.less(group, 3) is True

    build.when(build.less(group, size), branch)
    assert isinstance(build.less(group, 10), SSAValue)
    assert build.less(group, 100) is True
    assert build.remainder(row, size) is not row


def test_what_is_found_for_the_kernel_in_a_branch_holds_after_it(build: Builder) -> None:
    size, condition = build.block.args

    def branch(inner: Builder) -> None:
        build.assume_not_negative(size)
        assert inner.less(size, 0) is False

    build.when(build.less(0, condition), branch)
    assert build.less(size, 0) is False


@pytest.mark.parametrize("reassociate", [False, True])
def test_a_trial_emission_knows_what_the_kernel_knows(reassociate: bool) -> None:
    """Sizes are not negative, other scalars may be; sums keep their order where those of the kernel do."""
    module = parse("""func.func @f(%x: tensor<7xf32>, %offset: i32, %n: index) -> tensor<7xf32> {
      %y = arith.negf %x : tensor<7xf32>
      return %y : tensor<7xf32>
    }""")
    (source,) = (op for op in module.walk() if isinstance(op, func.FuncOp))
    frame = Frame(source, BACKEND, reassociate)
    frame.bind()
    _, offset, size = source.body.block.args
    for elements in (frame.elements, probe(frame)):
        scalars, build = elements.scalars, elements.entry
        assert elements.reassociate == reassociate
        assert build.is_not_negative(scalars[size]) and not build.is_not_negative(scalars[offset])
