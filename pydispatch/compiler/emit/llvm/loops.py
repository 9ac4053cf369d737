"""Counted loops in LLVM IR, which all operations with loops share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.llvm.body import Phi, as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.types import is_float
from pydispatch.compiler.kernel_ir.vector_loops import LANES
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.contract import ContractOp

VECTORISED, FEWEST_MASKED = 16, 3
"""Minimum number of iterations of a loop of known length for which vectorizing beats unrolling.

The first is for loops in general. The second is for loops that compute functions such as exp and whose steps all fit
into one masked vector: five exponentials take 0.39x the time so with AVX-512, 0.46x with AVX2; without masks 1.7x."""

MASKED_LANES = (("avx512f", 16), ("avx2", 8))
"""(LLVM feature, 32-bit lanes of the widest vector that it loads and stores with a mask), the widest first."""

MOST_VECTORS = (("avx512f", 4),)
"""(LLVM feature, maximum number of vectors that a loop over invocations computes together). It is 1 for other CPUs,
which have 16 vector registers: they would spill values. A layer norm's gradient takes 1.06 of the time with 4 vectors
on a CPU of x86-64-v3."""

SCALABLE = ("aarch64", "riscv64")
"""Architectures with vectors whose length is known at run time only."""

Range = tuple[Index, Index, Index]
"""Bounds of a loop: (lower, upper, step). The upper bound is exclusive, the step positive."""


class Loop:
    """Emitter of one counted loop in LLVM IR: callers call `begin` and `enter`, emit the body, then call `end`.

    Phis that are created between `begin` and `enter` are loop-carried values. Their edge from before the loop has the
    label `before`, their edge from the body the label that is current before `end`.

    Attributes:
        bounds: Range of the index.
        before: Label of the block before the loop; set by `begin`.
        counter: Name of the value of the loop's index; set by `begin`.

    Args:
        emitter: Emitter of the function.
        bounds: The attribute.
        type_: LLVM integer type of the index.
        predicate: Condition of icmp under which `counter PREDICATE upper` continues the loop: "slt" or "ult".
    """

    def __init__(self, emitter: FunctionEmitter, bounds: Range, type_: str = "i64", predicate: str = "slt") -> None:
        """Name the labels of the loop's blocks; the first instruction is emitted by `begin`."""
        self._f = emitter
        self.bounds = bounds
        self._type = type_
        self._predicate = predicate
        self._header, self._body_label, self._exit = map(emitter.body.new_label, ("head", "body", "after"))
        self._phi: Phi  # of the counter; set by `begin`

    def begin(self) -> None:
        """Branch to the header, and begin it with the phi of the counter."""
        body = self._f.body
        self.before = body.label
        body.br(self._header)
        body.start(self._header)
        self._phi = body.phi(self._type)
        self._phi.incoming.append((str(self.bounds[0]), self.before))
        self.counter = self._phi.name

    def enter(self) -> None:
        """Emit the test of the counter, and begin the body."""
        body = self._f.body
        continues = body.let(f"icmp {self._predicate} {self._type} {self.counter}, {self.bounds[1]}")
        body.cond_br(continues, self._body_label, self._exit)
        body.start(self._body_label)

    def end(self, metadata: int | None = None) -> None:
        """Emit the increment of the counter and the branch to the header, and begin the block after the loop.

        `metadata` is the number of the loop's `!llvm.loop` node; None for no node.
        """
        body = self._f.body
        no_overflow = "nsw" if self._predicate == "slt" else "nuw"  # the flag for signed or unsigned counters
        following = body.let(f"add {no_overflow} {self._type} {self.counter}, {self.bounds[2]}")
        self._phi.incoming.append((following, body.label))
        body.br(self._header, f", !llvm.loop !{metadata}" if metadata is not None else "")
        body.start(self._exit)


def nest(
    emitter: FunctionEmitter, bounds: Sequence[Range], body: Callable[[list[str]], None], is_parallel: bool = False,
    computes_functions: bool = False, lanes: int = 0, keep_rolled: bool = False,
) -> None:  # fmt: skip
    """Emit a loop nest around `body`, with the last range innermost.

    A parallel innermost loop has an access group, which `emitter.access_metadata` adds to the loads and stores of the
    body: LLVM then assumes that they do not depend on other iterations. Only the innermost loop is vectorized. Loops
    around a vectorized loop are not unrolled: with copies of it LLVM takes up to 3.7 times as long, for no faster code
    (attention, AMD EPYC Zen 4). A range of one step needs no loop.

    Args:
        emitter: The function's emitter.
        bounds: Range of each loop.
        body: Emits the body from the indices as text, one for each range: names, or numbers for ranges of one step.
        is_parallel: Whether iterations are independent.
        computes_functions: Whether an iteration computes functions such as exp.
        lanes: Lanes of the vector that all iterations of the innermost loop become; 0 lets LLVM choose.
        keep_rolled: Whether LLVM must not unroll the innermost loop, even if it has few steps.
    """
    loops, indices = _begin_loops(emitter, bounds)
    if not loops or not is_parallel:
        body(indices)
        for loop in reversed(loops):
            loop.end()
        return
    innermost = loops.pop()
    is_vector_loop = is_vectorised(emitter, innermost.bounds, computes_functions)
    # LLVM does not vectorize a loop that it unrolled completely.
    group, metadata = _parallel_metadata(emitter, keep_rolled or is_vector_loop, lanes)
    emitter.groups.append(group)
    body(indices)
    emitter.groups.pop()
    innermost.end(metadata)
    for loop in reversed(loops):
        loop.end(unroll_disabled(emitter) if is_vector_loop else None)


def _begin_loops(emitter: FunctionEmitter, bounds: Sequence[Range]) -> tuple[list[Loop], list[str]]:
    """Begin a loop for each range of more than one step, and return the loops and the index of each range as text."""
    loops: list[Loop] = []  # from the outermost on
    indices: list[str] = []
    for range_ in bounds:
        if _has_one_step(range_):
            indices.append(str(range_[0]))
            continue
        loop = Loop(emitter, range_)
        loop.begin()
        loop.enter()
        loops.append(loop)
        indices.append(loop.counter)
    return loops, indices


def _parallel_metadata(emitter: FunctionEmitter, is_rolled: bool, lanes: int) -> tuple[int, int]:
    """Create the access group of a parallel loop and its `!llvm.loop` node, and return the numbers of both nodes.

    Args:
        emitter: The function's emitter.
        is_rolled: Whether LLVM must not unroll the loop.
        lanes: Lanes of the vector that all iterations of the loop become; 0 lets LLVM choose.
    """
    group = emitter.module.metadata("distinct !{}")
    accesses = emitter.module.metadata(f'!{{!"llvm.loop.parallel_accesses", !{group}}}')
    node = emitter.module.metadata()  # reserved: a loop's node begins with its own number
    unrolling = [unrolling_forbidden(emitter)] if is_rolled else []
    nodes = [node, accesses, *unrolling, *whole_vectors(emitter, lanes)]
    emitter.module.set_metadata(node, f"distinct !{{{', '.join(f'!{listed}' for listed in nodes)}}}")
    return group, node


def unrolling_forbidden(emitter: FunctionEmitter) -> str:
    """Return the number, as text, of the metadata node that forbids LLVM to unroll a loop.

    LLVM would otherwise unroll a short loop completely, and does not vectorize the result.
    """
    return emitter.once("no unrolling", lambda: str(emitter.module.metadata('!{!"llvm.loop.unroll.disable"}')))


def whole_vectors(emitter: FunctionEmitter, lanes: int) -> list[str]:
    """Return the numbers of the metadata nodes that make LLVM compute `lanes` iterations together; none if that is 0.

    A vector has at most `LANES` lanes.
    """
    if not lanes:
        return []
    width = min(lanes, LANES)
    texts = f'"llvm.loop.vectorize.width", i32 {width}', f'"llvm.loop.interleave.count", i32 {lanes // width}'
    return [emitter.once(text, functools.partial(_node, emitter, text)) for text in texts]


def _node(emitter: FunctionEmitter, text: str) -> str:
    """Add a metadata node with this text, and return its number."""
    return str(emitter.module.metadata(f"!{{!{text}}}"))


def unroll_disabled(emitter: FunctionEmitter) -> int:
    """Create the `!llvm.loop` node of one loop that LLVM must not unroll, and return its number.

    In a loop over the steps of a register block, more copies of a step would spill the block's registers. In a loop
    around a vectorized loop, copies would only slow LLVM down.
    """
    rolled_node, node = unrolling_forbidden(emitter), emitter.module.metadata()
    emitter.module.set_metadata(node, f"distinct !{{!{node}, !{rolled_node}}}")
    return node


def _has_register_blocks(emitter: FunctionEmitter) -> bool:
    """Return whether the function computes register blocks of matrix products (`pyd.contract`)."""
    name = ContractOp.name
    # `once` caches texts: "" is False.
    return bool(emitter.once("product", lambda: name if any(op.name == name for op in walk(emitter.function)) else ""))


def is_rolled_in_products(emitter: FunctionEmitter, op: Operation) -> bool:
    """Return whether LLVM must not unroll the loop `op`, because the function computes matrix products.

    Copies of a loop around register blocks would spill their registers. Copies of a loop around the loops that fill or
    pack operands would multiply the code.
    """
    if not _has_register_blocks(emitter):
        return False
    product, body = ContractOp.name, op.regions[0].blocks[0]
    nested_names = {nested.name for nested in walk(body)}
    if product in nested_names:
        return any(child.name == product for child in body.ops)  # the innermost loop around register blocks
    return not nested_names.isdisjoint(("scf.for", "scf.parallel"))  # a loop around loops that fill or pack


def loop_metadata(
    emitter: FunctionEmitter, carried: Sequence[SSAValue], keep_rolled: bool = False, lanes: int = 0,
    unroll_completely: bool = False,
) -> int | None:  # fmt: skip
    """Return the number of the `!llvm.loop` node of a loop that carries these values; None if it needs none.

    Reductions of floats are not vectorized with scalable vectors: the partial sums of their lanes would depend on the
    length of the machine's vectors, and so would the result.

    Args:
        emitter: The function's emitter.
        carried: The loop-carried values, of which only the types matter.
        keep_rolled: Whether LLVM must not unroll the loop.
        lanes: Lanes of the vectors that all iterations become; 0 lets LLVM choose.
        unroll_completely: Whether LLVM must unroll the loop completely, even if the code becomes long.
    """
    hints: list[str] = []  # numbers of the nodes that the loop's node lists
    if keep_rolled:
        hints.append(unrolling_forbidden(emitter))
    hints += whole_vectors(emitter, lanes)
    if unroll_completely:
        text = '"llvm.loop.unroll.full"'
        hints.append(emitter.once(text, functools.partial(_node, emitter, text)))
    if emitter.platform.arch in SCALABLE and any(is_float(value.type) for value in carried):
        not_scalable = '!{!"llvm.loop.vectorize.scalable.enable", i1 false}'
        hints.append(emitter.once("not scalable", lambda: str(emitter.module.metadata(not_scalable))))
    if not hints:
        return None
    # A distinct node whose first operand is the node itself, as LLVM identifies loops: !9 = distinct !{!9, !7, !8}.
    node = emitter.module.metadata()
    emitter.module.set_metadata(node, f"distinct !{{!{', !'.join((str(node), *hints))}}}")
    return node


def is_vectorised(emitter: FunctionEmitter, range_: Range, computes_functions: bool = False) -> bool:
    """Return whether a loop is better vectorized than unrolled; False if its length is dynamic.

    If iterations compute functions such as exp, that includes loops of few steps that fit one masked vector.
    """
    masked_lanes = next((lanes for feature, lanes in MASKED_LANES if feature in emitter.platform.features), 0)
    steps = _count(range_)
    fits_masked_vector = FEWEST_MASKED <= steps <= masked_lanes
    return steps >= VECTORISED or (computes_functions and fits_masked_vector)


def _count(range_: Range) -> int:
    """Return the number of steps of a range; 0 if it is dynamic."""
    lower, upper, step = (as_index(part) for part in range_)
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return -(-(upper - lower) // step)  # rounded up
    return 0


def _has_one_step(range_: Range) -> bool:
    """Return whether a range is known to have exactly one step."""
    lower, upper, step = (as_index(part) for part in range_)
    known = isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)
    return known and 0 < upper - lower <= step  # type: ignore[operator]
