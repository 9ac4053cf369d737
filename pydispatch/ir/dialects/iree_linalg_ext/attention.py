"""`attention` and `online_attention`: products of queries and keys, their softmax, and products with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ShapedType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import IRDLOperation, opt_prop_def, opt_region_def, prop_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.iree_linalg_ext.base import (
    RESULTS,
    SIDES,
    OnTensorsOp,
    check_body,
    check_count,
)
from pydispatch.ir.dialects.linalg.base import maps_of
from pydispatch.ir.dialects.linalg.structure import check_sizes


class Loops(NamedTuple):
    """Loops of an attention by their role, as dimensions of the iteration space: 2 is d2 of the indexing maps.

    Example: a batch of 2 attentions has queries [2, 7, 4], keys [2, 5, 4], values [2, 5, 6] and an output [2, 7, 6].
    With (d0, d1, d2, d3, d4) -> (d0, d1, d2) for the query, (d0, d3, d2) for the key, (d0, d3, d4) for the value and
    (d0, d1, d4) for the output, the roles are rows (0, 1), columns (3,), features (2,) and values (4,).

    Attributes:
        rows: Loops of the output that the query or the key has, the batch included. Each row has a softmax.
        columns: Loops of key and value but not of the output, one iteration per key. The softmax and the sum of the
            weighted values reduce over them.
        features: Loops of query and key only. The product of a query and a key is the sum over them.
        values: The other loops of the output, which index the numbers of one value.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    features: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def scores(self) -> tuple[int, ...]:
        """Return the loops that index the scores, the products of queries and keys: the rows, then the columns."""
        return self.rows + self.columns


@directive
class Properties(CustomDirective):
    """Directive for properties in angle brackets, `<indexing_maps = [...], ...>`, as newer programs write them.

    This form is only parsed; older programs and pydispatch write properties into the attribute dictionary.
    """

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `<name = value, ...>` if it is next; parse nothing otherwise."""
        if not parser.lexer.input.content.startswith("<", parser.pos):  # `pos` is the offset of the next token
            return
        known = state.op_type.get_irdl_definition().properties

        def parse_entry() -> None:
            """Parse `name = value` of a property of the operation."""
            start = parser.pos
            name, value = parser._parse_attribute_entry()
            if name not in known:
                parser.raise_error(f"'{name}' is not a property of '{state.op_type.name}'", start, parser.pos)
            state.properties[name] = value

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_entry, " in the properties of an attention")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the properties are printed in the attribute dictionary."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that no angle brackets are printed: the properties are in the attribute dictionary."""
        return False


class Attention(OnTensorsOp):
    """Attention: softmax(body(scale * query * key) + mask) * value.

    Inputs are query, key, value, optionally a float scale, and optionally a mask: a tensor of floats that are added, or
    of i1, which are true for the scores that take part. The default scale is 1 / sqrt(number of features).
    `indexing_maps` has a map per operand; that of the scale may be omitted. The body maps a score to a score. Scores
    and sums are computed in f32, or in f64 if an operand or the body has this type. `OUTPUTS` names the outputs.
    `decomposition_config` has options such as `use_exp2`.
    """

    decomposition_config = opt_prop_def(DictionaryAttr)
    indexing_maps = prop_def(ArrayAttr)
    body = opt_region_def("single_block")
    custom_directives = (*OnTensorsOp.custom_directives, Properties)
    assembly_format = f"custom<Properties>() attr-dict {SIDES} $body {RESULTS}"
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output",)

    @property
    def scale(self) -> SSAValue | None:
        """Return the scale, a scalar after query, key and value; None if the default scale is used."""
        has_scale = len(self.inputs) > 3 and not isinstance(self.inputs[3].type, ShapedType)  # a mask has a shape
        return self.inputs[3] if has_scale else None

    @property
    def mask(self) -> SSAValue | None:
        """Return the mask, which follows query, key, value and the optional scale; None if there is none."""
        others = self.inputs[3 if self.scale is None else 4 :]
        return others[0] if others else None

    def maps(self) -> list[AffineMap]:
        """Return the indexing map of each operand; that of the scale has no results."""
        maps: list[AffineMap] = maps_of(self.indexing_maps)
        # Programs of older releases have no map for the scale, a scalar that is the operand after query, key and value.
        is_scale_without_map = len(maps) == len(self.operands) - 1 and self.scale is not None
        if maps and is_scale_without_map:
            maps.insert(3, AffineMap(maps[0].num_dims, 0, ()))
        return maps

    def loops(self) -> Loops:
        """Return the loops by their role: rows, columns, features and values.

        The operands whose maps use a loop determine its role. Rows are loops of the output and of the query or key;
        columns, one iteration per key, are loops of the value and not of the output; features, over which scores are
        summed, are loops of query and key only; values are the other loops of the output. For a query (d0, d1), a key
        (d2, d1), a value (d2, d3) and an output (d0, d3), they are (0,), (2,), (1,) and (3,).

        Raise VerifyException if a loop has no role, if there are no columns, or if the key lacks a column.
        """
        maps = self.maps()
        query, key, value, output = (_dims(maps[n]) for n in (0, 1, 2, len(self.inputs)))  # outputs follow the inputs
        columns = [d for d in value if d not in output]
        features = [d for d in query if d in key and d not in output and d not in columns]
        rows = [d for d in sorted({*query, *key}) if d in output]
        values = [d for d in output if d not in rows]
        for d in columns:
            if d not in key:  # values that have no score of their own
                raise VerifyException(f"iteration d{d} is one of the value and not of the output: the key has it too")
        if not columns:
            raise VerifyException("the value has no iteration that the output lacks: there is nothing to attend to")
        for d in range(maps[0].num_dims):
            if d not in (*rows, *columns, *features, *values):  # such as a loop that only the query has
                raise VerifyException(f"iteration d{d} is neither one of the output, nor shared by query and key, nor "
                                      "by key and value")  # fmt: skip
        return Loops(tuple(rows), tuple(sorted(columns)), tuple(features), tuple(values))

    def verify_operands(self) -> None:
        """Check the numbers of operands, their element types, maps and sizes, and the body."""
        check_count("input", len(self.inputs), 3, 4, 5)  # 3, 4 or 5: a scale and a mask are optional
        check_count("output", len(self.outputs), len(self.OUTPUTS))
        names = ["the query", "the key", "the value"]
        names += [] if self.scale is None else ["the scale"]
        names += [] if self.mask is None else ["the mask"]
        check_count("input", len(self.inputs), len(names))  # refuses an input after the mask
        names += [f"the {name}" for name in self.OUTPUTS]
        self._verify_maps(names)
        self._verify_elements(names)
        if self.body is not None:
            self._verify_body(set(self.loops().scores))

    def _verify_maps(self, names: list[str]) -> None:
        """Check the indexing maps; raise VerifyException otherwise.

        - Each map is a list of distinct loops, such as (d0, d3, d2), without expressions such as d0 + d1.
        - Operands agree about the sizes of the loops.
        - The mask has only loops of the scores: rows and columns.
        - The running maxima and sums of an `online_attention` have exactly the loops of the rows.

        Args:
            names: Name of each operand in messages.
        """
        maps = self.maps()
        for map in maps:
            has_only_dims = all(isinstance(e, AffineDimExpr) for e in map.results)
            if not has_only_dims or len(set(_dims(map))) != len(map.results):
                raise VerifyException(f"each map of an attention selects different iterations, got {map}")
        check_sizes([v.type for v in self.operands], maps, maps[0].num_dims if maps else 0, names)
        loops = self.loops()
        if self.mask is not None:
            mask_map = maps[len(self.inputs) - 1]  # the mask is the last input
            if not set(loops.scores).issuperset(_dims(mask_map)):
                raise VerifyException(f"the map of the mask has iterations that scores do not have: {mask_map}")
        maps_of_statistics = maps[len(self.inputs) + 1 :]  # maxima and sums, which follow the first output
        for map in maps_of_statistics:
            if set(_dims(map)) != set(loops.rows):
                raise VerifyException(f"maxima and sums have the iterations of the rows, got {map}")

    def _verify_elements(self, names: Sequence[str]) -> None:
        """Check that operands have float elements, the mask floats or i1, and query and key one element type.

        `names` are the names of the operands in messages; "the mask" marks the mask.
        """
        for value, name in zip(self.operands, names, strict=True):
            type, is_mask = element_type(value.type), name == "the mask"
            is_valid = isinstance(type, AnyFloat) or (is_mask and type == IntegerType(1))
            if not is_valid:
                wanted = "floats or i1" if is_mask else "floats"
                raise VerifyException(f"{name} has {wanted} for elements, got {value.type}")
        query, key = (element_type(v.type) for v in self.inputs[:2])
        if query != key:
            raise VerifyException(f"query and key have one element type, got {query} and {key}")

    def _verify_body(self, scores: set[int]) -> None:
        """Check that the body maps a float to a float of the same type, and only uses loop indices of scores.

        `scores` are the dimensions of the iteration space that the scores have, `Loops.scores`.
        """
        assert self.body is not None
        arguments: list[Attribute] = [a.type for a in self.body.block.args]
        if len(arguments) != 1 or not isinstance(arguments[0], AnyFloat):
            raise VerifyException("the body takes one float, the score")
        check_body(self.body, arguments, arguments)
        for op in walk(self.body):
            if isinstance(op, IndexOp) and op.dim.value.data not in scores:
                raise VerifyException(f"the body asks for iteration d{op.dim.value.data}, which scores do not have")


def _dims(map: AffineMap) -> list[int]:
    """Return the dimensions that are results of a map, in order: [0, 2] for `(d0, d1, d2) -> (d0, d2)`."""
    return [e.position for e in map.results if isinstance(e, AffineDimExpr)]


@op_definition
class AttentionOp(Attention):
    """Attention in one step. The values of the output operand are not read: it states the shape and the type."""

    name = "iree_linalg_ext.attention"


@op_definition
class OnlineAttentionOp(Attention):
    """Step of flash attention: attention over some of the keys and values, which updates running results.

    The output operands are the results of the steps before, and the results are their new values. With s[j] for the
    scores of one row (one query), over the keys j of all steps so far, they are for each row

        maximum = max over j of s[j]
        sum     = sum over j of exp(s[j] - maximum)
        output  = sum over j of exp(s[j] - maximum) * value[j], which the program divides by `sum` after the last step

    By default, exponentials are computed as powers of two, exp(x) = 2 ** (log2(e) * x), and the operands and results
    have log2(e) * `maximum`. With `decomposition_config = {use_exp2 = false}` they have `maximum` itself.
    """

    name = "iree_linalg_ext.online_attention"
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output", "maximum", "sum")  # in the order of the operands

    @property
    def is_base_two(self) -> bool:
        """Return whether exponentials are powers of two, so that the maxima are multiplied by log2(e).

        That is the default; `decomposition_config = {use_exp2 = false}` changes it.
        """
        config: Any = self.decomposition_config
        setting = None if config is None else config.data.get("use_exp2")
        is_false = isinstance(setting, IntegerAttr) and setting.value.data == 0
        return not is_false


@op_definition
class IndexOp(IRDLOperation):
    """Index of the loop `dim`, a dimension of the iteration space, in the body of an attention."""

    name = "iree_linalg_ext.index"
    dim = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$dim attr-dict `:` type($result)"

    def verify_(self) -> None:
        """Check that the operation is nested in an attention."""
        parent = self.parent_op()
        while parent is not None and not isinstance(parent, Attention):
            parent = parent.parent_op()
        if parent is None:
            raise VerifyException("expected an attention around it")


OPERATIONS: list[type[Operation]] = [AttentionOp, OnlineAttentionOp, IndexOp]
