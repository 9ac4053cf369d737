"""Cleanup after a replacement: dead operations, unused private symbols, common subexpressions, redundant casts."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation, OpResult
from xdsl.transforms.dead_code_elimination import would_be_trivially_dead

from pydispatch.compiler.analysis.kinds import is_pure
from pydispatch.compiler.match.edit.symbols import references, symbol_of
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk

_DISPATCHES = ("flow.dispatch", "hal.dispatch.extern")
"""Operations whose only effects are their results, so that unused ones are erased."""


def eliminate_dead(root: Operation) -> None:
    """Erase operations under `root` whose results nothing uses, then private symbols to which nothing refers."""
    pending = [op for op in walk(root) if op is not root]
    while pending:
        op = pending.pop()
        if op.parent is None or not _is_dead(op):
            continue
        producers = [v.op for inner in walk(op) for v in inner.operands if isinstance(v, OpResult)]  # of regions, too
        erase_op(op)
        pending += [producer for producer in producers if producer.parent is not None]  # they may be dead now
    if isinstance(root, ModuleOp):
        eliminate_symbols(root)


def _is_dead(op: Operation) -> bool:
    """Return whether an operation may be erased: it has results, none of which is used, and no other effects.

    A dispatch has no other effects: it writes only its results.
    """
    if not op.results or any(r.first_use is not None for r in op.results):
        return False
    if op.name in _DISPATCHES:
        return True
    if is_pure(op):
        # `is_pure` does not look into regions. Those of tensor operations only compute elements, but others may have
        # effects.
        returns_tensor = any(isinstance(r.type, TensorType) for r in op.results)
        return returns_tensor or not op.regions
    return bool(would_be_trivially_dead(op))


def eliminate_symbols(module: ModuleOp) -> None:
    """Erase the private symbols that are not reachable from the public symbols and the unnamed operations."""
    ops = list(module.body.block.ops)
    by_name = {symbol_of(op): op for op in ops if symbol_of(op)}
    private = StringAttr("private")
    pending = [op for op in ops if not symbol_of(op) or op.properties.get("sym_visibility") != private]
    reachable = set(pending)
    while pending:
        for name in references(pending.pop()):
            op = by_name.get(name)
            if op is not None and op not in reachable:
                reachable.add(op)
                pending.append(op)
    for op in ops:
        if op not in reachable:
            erase_op(op, safe_erase=False)  # other unreachable symbols may still refer to it


def eliminate_common(root: Operation) -> None:
    """Eliminate common subexpressions under `root`."""
    from xdsl.transforms.common_subexpression_elimination import cse

    cse(root)


def canonicalize(root: Operation) -> None:
    """Apply xDSL's canonicalization patterns under `root`, and fold chains of tensor casts."""
    from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
    from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
    from xdsl.transforms.dead_code_elimination import region_dce

    from pydispatch import ir

    fold_casts(root)
    pattern = GreedyRewritePatternApplier([CanonicalizationRewritePattern()], ctx=ir.context(), folding_enabled=True)
    walker = PatternRewriteWalker(pattern, post_walk_func=region_dce)
    for region in root.regions:
        walker.rewrite_region(region)


def fold_casts(root: Operation) -> None:
    """Make users of a chain of tensor.cast that ends in the original type use the original tensor.

    The casts, which may then be dead, stay in the program.
    """
    for op in list(walk(root)):
        if op.name != "tensor.cast":
            continue
        source = op.operands[0]
        while isinstance(source, OpResult) and source.op.name == "tensor.cast":
            source = source.op.operands[0]
        if source.type == op.results[0].type:
            op.results[0].replace_all_uses_with(source)


def _inline(root: Operation) -> None:
    """Inline the calls of a module."""
    from pydispatch.compiler.flatten.inline import inline_calls

    if isinstance(root, ModuleOp):
        inline_calls(root)


def _normalize(root: Operation) -> None:
    """Lower the named operations of a module."""
    from pydispatch.compiler.normalize import normalize

    if isinstance(root, ModuleOp):
        normalize(root)


PASSES: dict[str, Callable[[Operation], None]] = {
    "canonicalize": canonicalize,
    "cse": eliminate_common,
    "dce": eliminate_dead,
    "symbol-dce": lambda root: eliminate_symbols(root) if isinstance(root, ModuleOp) else None,
    "inline": _inline,
    "normalize": _normalize,
    "linalg-generalize-named-ops": _normalize,
}
"""Passes that `transform.apply_registered_pass` may name."""
