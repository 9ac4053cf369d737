"""Affine maps with products of symbols and divisions by symbols, which the library's parser refuses."""

from __future__ import annotations

from typing import Any

from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.parser.affine_parser import AffineParser

KINDS = {
    "*": AffineBinaryOpKind.Mul,
    "floordiv": AffineBinaryOpKind.FloorDiv,
    "ceildiv": AffineBinaryOpKind.CeilDiv,
    "mod": AffineBinaryOpKind.Mod,
}
"""Operator in the text of an affine map → its kind in the expression, for operators whose operand may be a symbol."""


class SemiAffineParser(AffineParser):
    """Parser of affine maps and sets that also accepts semi-affine expressions: products with and divisions by symbols.

    It accepts `(d0)[s0] -> (d0 * s0, d0 floordiv s0)`, where xDSL's parser requires a constant in place of s0.
    """

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: Any) -> AffineExpr:
        """Return the expression `lhs binop rhs`, which may be semi-affine; `binop` is the operator's token.

        One factor of a product and the divisor of a division must consist of constants and symbols: `d0 * s0` and
        `d0 mod (s0 * 2)` are accepted, `d0 * d1` is a parse error.
        """
        kind = KINDS.get(binop.text)  # None for + and -
        is_affine = isinstance(rhs, AffineConstantExpr)
        if kind is AffineBinaryOpKind.Mul:
            is_affine = is_affine or isinstance(lhs, AffineConstantExpr)
        if kind is None or is_affine:  # xDSL accepts the expression
            return super()._create_binop_expr(lhs, rhs, binop)
        # As in MLIR, the symbolic factor of a product is its right operand.
        if kind is AffineBinaryOpKind.Mul and has_dimension(rhs) and not has_dimension(lhs):
            lhs, rhs = rhs, lhs
        if has_dimension(rhs):
            operand = "one factor" if kind is AffineBinaryOpKind.Mul else "the divisor"
            self.raise_error(
                f"'{lhs} {binop.text} {rhs}' is not affine: {operand} must be made of constants and symbols",
                binop.start,
                binop.end,
            )
        return AffineBinaryOpExpr(kind, lhs, rhs)


def has_dimension(expression: AffineExpr) -> bool:
    """Return whether a dimension such as d0 occurs in an affine expression."""
    return any(isinstance(nested, AffineDimExpr) for nested in expression.dfs())
