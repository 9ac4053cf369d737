"""Counted loops in LLVM IR, which all operations with loops share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.emit.llvm.body import Phi, as_index
from pydispatch.compiler.emit.llvm.function import FunctionEmitter
from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.types import is_float
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.pyd.contract import ContractOp

VECTORISED, FEWEST_MASKED = 16, 3
"""Steps of a loop of known length from which on it is better vectorised than unrolled. Where functions are computed,
few are enough if a masked vector holds all: five exponentials 0.39x the time with AVX-512, 0.46x with AVX2, 1.7x
without."""

MASKED_LANES = (("avx512f", 16), ("avx2", 8))
"""Elements of 32 bits in a vector that memory is read and written in with a mask, by feature."""

SCALABLE = ("aarch64", "riscv64")
"""Architectures with vectors whose length only the machine knows."""

Range = tuple[Index, Index, Index]
"""(lower, upper, step); the step is positive."""


class Loop:
    """A counted loop being written: `begin`, then the body, then `end`. `counter` is the current value.

    Phis made between `begin` and `enter` belong to the header; edges into them from before the loop are added by
    `entering`, from the body's end before `end`.
    """

    def __init__(self, emitter: FunctionEmitter, bounds: Range, type_: str = "i64", predicate: str = "slt") -> None:
        self._f = emitter
        self._bounds = bounds
        self._type = type_
        self._predicate = predicate
        self._labels = tuple(emitter.body.new_label(hint) for hint in ("head", "body", "after"))
        self._phi: Phi

    def begin(self) -> None:
        """Open the header. Edges from the block before must be noted with the label that was current before."""
        body = self._f.body
        self.before = body.label
        body.br(self._labels[0])
        body.start(self._labels[0])
        self._phi = body.phi(self._type)
        self._phi.incoming.append((str(self._bounds[0]), self.before))
        self.counter = self._phi.name

    def enter(self) -> None:
        """Close the header and open the body."""
        body = self._f.body
        go = body.let(f"icmp {self._predicate} {self._type} {self.counter}, {self._bounds[1]}")
        body.cond_br(go, self._labels[1], self._labels[2])
        body.start(self._labels[1])

    def end(self, metadata: int | None = None) -> None:
        """Close the body and open what follows."""
        body = self._f.body
        wrap = "nsw" if self._predicate == "slt" else "nuw"
        following = body.let(f"add {wrap} {self._type} {self.counter}, {self._bounds[2]}")
        self._phi.incoming.append((following, body.label))
        body.br(self._labels[0], f", !llvm.loop !{metadata}" if metadata is not None else "")
        body.start(self._labels[2])


def nest(
    emitter: FunctionEmitter, bounds: Sequence[Range], body: Callable[[list[str]], None], is_parallel: bool = False,
    is_long: bool = False, lanes: int = 0,
) -> None:  # fmt: skip
    """Emit a loop nest around `body`, with the last range innermost.

    Only the innermost loop gets metadata, since only that loop is vectorized. A range of one step needs no loop.

    is_parallel: iterations are independent. is_long: an iteration computes functions such as exp. lanes: of the vector
    that the iterations of the innermost loop are; 0 lets LLVM choose.
    """
    loops: list[Loop] = []
    indices: list[str] = []
    group = metadata = None
    innermost = next((i for i in reversed(range(len(bounds))) if not _single(bounds[i])), None)
    for level, range_ in enumerate(bounds):
        if _single(range_):
            indices.append(str(range_[0]))
            continue
        loop = Loop(emitter, range_)
        loop.begin()
        loop.enter()
        loops.append(loop)
        indices.append(loop.counter)
        if is_parallel and level == innermost:
            group = emitter.module.metadata("distinct !{}")
            accesses = emitter.module.metadata(f'!{{!"llvm.loop.parallel_accesses", !{group}}}')
            metadata = emitter.module.metadata()
            notes = [str(rolled(emitter))] if is_vectorised(emitter, range_, is_long) else []
            notes = [f"!{note}" for note in (metadata, accesses, *notes, *one_vector(emitter, lanes))]
            emitter.module.set_metadata(metadata, f"distinct !{{{', '.join(notes)}}}")
    if group is not None:
        emitter.groups.append(group)
    body(indices)
    if group is not None:
        emitter.groups.pop()
    for loop in reversed(loops):
        loop.end(metadata if loop is loops[-1] else None)


def rolled(emitter: FunctionEmitter) -> str:
    """Return metadata by which LLVM's first passes leave the loop whole; unrolled, it would not be vectorised."""
    return emitter.once("no unrolling", lambda: str(emitter.module.metadata('!{!"llvm.loop.unroll.disable"}')))


def one_vector(emitter: FunctionEmitter, lanes: int) -> list[str]:
    """Return metadata by which LLVM makes the iterations of a loop the lanes of one vector; nothing without lanes."""
    texts = (f'"llvm.loop.vectorize.width", i32 {lanes}', '"llvm.loop.interleave.count", i32 1') if lanes else ()
    return [emitter.once(text, functools.partial(_node, emitter, text)) for text in texts]


def _node(emitter: FunctionEmitter, text: str) -> str:
    return str(emitter.module.metadata(f"!{{!{text}}}"))


def kept_whole(emitter: FunctionEmitter) -> int:
    """Create metadata for one loop that LLVM never unrolls, which would spill the registers of a block, and return its
    number.
    """
    rolled_node, node = rolled(emitter), emitter.module.metadata()
    emitter.module.set_metadata(node, f"distinct !{{!{node}, !{rolled_node}}}")
    return node


def is_rolled_in_products(emitter: FunctionEmitter, op: Operation) -> bool:
    """Return whether a loop computes register blocks, or contains the loops that fill or pack them. Unrolled, the
    former would spill the registers of a block, and the latter would be many times the code.
    """
    name, body = ContractOp.name, op.regions[0].blocks[0]
    if not emitter.once("product", lambda: name if any(o.name == name for o in walk(emitter.function)) else ""):
        return False
    inner = {nested.name for nested in walk(body)}
    if name in inner:
        return any(child.name == name for child in body.ops)
    return not inner.isdisjoint(("scf.for", "scf.parallel"))


def known_lanes(
    emitter: FunctionEmitter, carried: Sequence[SSAValue], whole: bool = False, lanes: int = 0
) -> int | None:
    """Return the id of the `!llvm.loop` node of a loop that carries these values; None where it needs none.

    Reductions of floats are not vectorized with scalable vectors: the partial sums of their lanes would depend on the
    length of the machine's vectors, and so would the result. whole: also keep early passes from unrolling the loop.
    lanes: as for `nest`.
    """
    parts = [*([rolled(emitter)] if whole else []), *one_vector(emitter, lanes)]
    if emitter.platform.arch in SCALABLE and any(is_float(value.type) for value in carried):
        not_scalable = '!{!"llvm.loop.vectorize.scalable.enable", i1 false}'
        parts.append(emitter.once("fixed", lambda: str(emitter.module.metadata(not_scalable))))
    if not parts:
        return None
    node = emitter.module.metadata()
    emitter.module.set_metadata(node, f"distinct !{{!{', !'.join((str(node), *parts))}}}")
    return node


def is_vectorised(emitter: FunctionEmitter, range_: Range, long: bool = False) -> bool:
    """Return whether a loop of known length is better vectorised than unrolled. long: as for `nest`."""
    lanes = next((lanes for feature, lanes in MASKED_LANES if feature in emitter.platform.features), 0)
    steps = _count(range_)
    return steps >= VECTORISED or (long and FEWEST_MASKED <= steps <= lanes)


def _count(range_: Range) -> int:
    """Return the number of steps, 0 when it is not known."""
    lower, upper, step = (as_index(part) for part in range_)
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return -(-(upper - lower) // step)
    return 0


def _single(range_: Range) -> bool:
    lower, upper, step = (as_index(part) for part in range_)
    known = isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int)
    return known and 0 < upper - lower <= step  # type: ignore[operator]
