"""Models as ONNX, for onnxruntime: what JAX traced, operation by operation, with the weights as initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import onnx
from catalog import Model
from jax.extend import core
from onnx import helper, numpy_helper

OPSET = 20
"""Version of ONNX's operators, all of which onnxruntime has."""

OPERATORS = {  # of JAX primitives, whose operands an ONNX operator takes in the same order, without attributes
    "add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow",
    "neg": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "tanh": "Tanh", "logistic": "Sigmoid", "sqrt": "Sqrt",
    "erf": "Erf", "cos": "Cos", "sin": "Sin", "round": "Round", "sign": "Sign", "eq": "Equal", "lt": "Less",
    "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "and": "And", "or": "Or", "not": "Not",
    "copy": "Identity", "copy_p": "Identity", "stop_gradient": "Identity",
}  # fmt: skip
REDUCTIONS = {"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
"""ONNX operators of JAX primitives that reduce axes, which ONNX takes as a second operand."""


class NotExported(Exception):
    """Error for a JAX primitive that this exporter cannot write as ONNX."""


class Exporter:
    """Builder of the nodes and initializers of one ONNX graph from the equations of a jaxpr.

    A method `_NAME` exports the equations of primitive NAME: it takes the equation and the ONNX names of its operands,
    and returns the name of its result, or a list of names for several.

    Attributes:
        nodes: Nodes of the graph, in order.
        constants: Initializers of the graph.
        names: ONNX name of each variable of the jaxpr.
        count: Number of nodes created, those of bodies of scans included; makes names of results unique.
    """

    def __init__(self) -> None:
        """Begin with an empty graph."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names: dict[Any, str] = {}
        self.count = 0

    def name(self, value: Any) -> str:
        """Return the ONNX name of a variable of the jaxpr; a literal becomes an initializer."""
        if isinstance(value, core.Literal):
            return self.constant(np.asarray(value.val, value.aval.dtype))
        return self.names[value]

    def constant(self, array: Any) -> str:
        """Add an initializer, and return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Append a node; return the name of its result, or a list of names where `outputs` is not 1."""
        self.count += 1
        names = [f"n{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def run(self, jaxpr: Any, inputs: Sequence[str]) -> list[str]:
        """Append the nodes of a jaxpr whose parameters have the names `inputs`; return the names of its results."""
        self.names.update(zip(jaxpr.invars, inputs, strict=True))
        for equation in jaxpr.eqns:
            results = self.equation(equation)
            self.names.update(zip(equation.outvars, [results] if isinstance(results, str) else results, strict=True))
        return [self.name(v) for v in jaxpr.outvars]

    def equation(self, equation: Any) -> str | list[str]:
        """Append the nodes of an equation; return the name of its result, or a list of names for several.

        Raises:
            NotExported: The primitive, or a case of it, has no counterpart here.
        """
        name, names = equation.primitive.name, [self.name(v) for v in equation.invars]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if inner is not None and name != "scan":  # a call, for instance of pjit: its body is inlined
            self.names.update((v, self.constant(c)) for v, c in zip(inner.jaxpr.constvars, inner.consts, strict=True))
            return self.run(inner.jaxpr, names)
        if name in OPERATORS:
            return str(self.add(OPERATORS[name], *names))
        if name in REDUCTIONS:
            return str(self.add(REDUCTIONS[name], names[0], self.ints(equation.params["axes"]), keepdims=0))
        export = getattr(self, f"_{name}", None)
        if export is None:
            raise NotExported(f"'{name}' has no counterpart in ONNX here")
        return export(equation, *names)

    def ints(self, numbers: Sequence[int]) -> str:
        """Add an initializer of i64, the type of shapes and axes in ONNX, and return its name."""
        return self.constant(np.array(numbers, np.int64))

    def _square(self, equation: Any, x: str) -> str:
        """Export x * x."""
        return self.add("Mul", x, x)

    def _integer_pow(self, equation: Any, x: str) -> str:
        """Export a power whose exponent is an integer parameter of the equation."""
        return self.add("Pow", x, self.constant(np.array(equation.params["y"], equation.invars[0].aval.dtype)))

    def _rsqrt(self, equation: Any, x: str) -> str:
        """Export 1 / sqrt(x)."""
        return self.add("Reciprocal", self.add("Sqrt", x))

    def _erfc(self, equation: Any, x: str) -> str:
        """Export 1 - erf(x), as ONNX has no erfc."""
        return self.add("Sub", self.constant(np.ones((), equation.invars[0].aval.dtype)), self.add("Erf", x))

    def _convert_element_type(self, equation: Any, x: str) -> str:
        """Export a conversion to another element type."""
        return self.add("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(equation.params["new_dtype"])))

    def _select_n(self, equation: Any, condition: str, *cases: str) -> str:
        """Export a choice between two cases: cases[1] where `condition` is true, cases[0] elsewhere."""
        if equation.outvars[0].aval.dtype == bool:  # onnxruntime has no Where of booleans
            chosen = self.add("And", condition, cases[1])
            return self.add("Or", chosen, self.add("And", self.add("Not", condition), cases[0]))
        return self.add("Where", condition, cases[1], cases[0])

    def _reshape(self, equation: Any, x: str) -> str:
        """Export a change of the shape that keeps the order of elements."""
        return self.add("Reshape", x, self.ints(equation.outvars[0].aval.shape))

    _squeeze = _expand_dims = _reshape

    def _transpose(self, equation: Any, x: str) -> str:
        """Export a permutation of the axes."""
        return self.add("Transpose", x, perm=list(equation.params["permutation"]))

    def _broadcast_in_dim(self, equation: Any, x: str) -> str:
        """Export a broadcast: Reshape inserts new axes of size 1, Expand repeats along axes of size 1."""
        shape, old_shape = equation.params["shape"], equation.invars[0].aval.shape
        aligned = [1] * len(shape)  # the operand's shape with a size of 1 for each new axis, as Expand needs it
        for axis, size in zip(equation.params["broadcast_dimensions"], old_shape, strict=True):
            aligned[axis] = size
        x = x if list(old_shape) == aligned else self.add("Reshape", x, self.ints(aligned))
        return x if list(shape) == aligned else self.add("Expand", x, self.ints(shape))

    def _iota(self, equation: Any) -> str:
        """Export indices along one axis, the same for all indices of the other axes, as an initializer."""
        shape, axis = equation.params["shape"], equation.params["dimension"]
        aligned = [-1 if d == axis else 1 for d in range(len(shape))]
        indices = np.arange(shape[axis], dtype=equation.params["dtype"]).reshape(aligned)
        return self.constant(np.broadcast_to(indices, shape))

    def _concatenate(self, equation: Any, *parts: str) -> str:
        """Export a concatenation along an axis."""
        return self.add("Concat", *parts, axis=equation.params["dimension"])

    def _stack(self, equation: Any, *parts: str) -> str:
        """Export a concatenation along a new axis: Unsqueeze of each operand, then Concat."""
        axis = equation.params["axis"]
        return self.add("Concat", *(self.add("Unsqueeze", p, self.ints([axis])) for p in parts), axis=axis)

    def _slice(self, equation: Any, x: str) -> str:
        """Export a slice of all axes whose bounds and strides are constants."""
        starts, limits = equation.params["start_indices"], equation.params["limit_indices"]
        strides = equation.params["strides"] or (1,) * len(starts)
        return self.add("Slice", x, *map(self.ints, (starts, limits, range(len(starts)), strides)))

    def _split(self, equation: Any, x: str) -> list[str]:
        """Export a split along an axis into parts of given sizes."""
        sizes, axis = self.ints(equation.params["sizes"]), equation.params["axis"]
        return self.add("Split", x, sizes, axis=axis, outputs=len(equation.outvars))

    def _top_k(self, equation: Any, x: str) -> list[str]:
        """Export the k largest elements along the last axis; return the names of the elements and their indices."""
        values, indices = self.add("TopK", x, self.ints([equation.params["k"]]), axis=-1, outputs=2)
        return [values, self.add("Cast", indices, to=onnx.TensorProto.INT32)]  # ONNX has indices of i64, JAX of i32

    def _gather(self, equation: Any, x: str, indices: str) -> str:
        """Export a gather of whole slices along the first axis, whose index vectors have one element."""
        numbers, shape = equation.params["dimension_numbers"], equation.invars[0].aval.shape
        takes_whole_slices = equation.params["slice_sizes"] == (1, *shape[1:]) and numbers.collapsed_slice_dims == (0,)
        indexes_first_axis = numbers.start_index_map == (0,) and not numbers.operand_batching_dims
        if not takes_whole_slices or not indexes_first_axis:
            raise NotExported(f"a gather of {equation.params['slice_sizes']} has no counterpart here")
        last_axis = equation.invars[1].aval.ndim - 1  # the axis of the index vectors, whose size is 1; ONNX lacks it
        return self.add("Gather", x, self.add("Squeeze", indices, self.ints([last_axis])), axis=0)

    def _dynamic_slice(self, equation: Any, x: str, *starts: str) -> str:
        """Export a slice of constant sizes. starts: names of scalars, one for each axis."""
        sizes = equation.params["slice_sizes"]
        begins = [self.add("Cast", self.add("Reshape", s, self.ints([1])), to=onnx.TensorProto.INT64) for s in starts]
        begin = self.add("Concat", *begins, axis=0) if len(begins) > 1 else begins[0]
        return self.add("Slice", x, begin, self.add("Add", begin, self.ints(sizes)), self.ints(range(len(sizes))))

    def _dynamic_update_slice(self, equation: Any, x: str, update: str, *starts: str) -> str:
        """Export an update of a single index along one axis, and of all indices along the others, as Where."""
        shape, update_shape = equation.invars[0].aval.shape, equation.invars[1].aval.shape
        axes = [d for d, (n, m) in enumerate(zip(shape, update_shape, strict=True)) if n != m]
        if len(axes) != 1 or update_shape[axes[0]] != 1:
            raise NotExported(f"an update of {update_shape} in {shape} has no counterpart here")
        (axis,) = axes
        numbers = np.arange(shape[axis], dtype=equation.invars[2 + axis].aval.dtype)  # operands 2 and on are the starts
        indices = self.constant(numbers.reshape([-1 if d == axis else 1 for d in range(len(shape))]))
        return self.add("Where", self.add("Equal", indices, starts[axis]), update, x)

    def _scan(self, equation: Any, *names: str) -> list[str]:
        """Export a scan as ONNX's Scan, whose body refers to the loop-invariant operands as values of the outer graph.

        Operands of JAX's scan are loop-invariant ones, then initial states, then arrays of which a step takes a slice.
        """
        p, inner = equation.params, equation.params["jaxpr"]
        if p["reverse"]:
            raise NotExported("a scan backwards has no counterpart here")
        fixed, carried = p["num_consts"], p["num_carry"]
        outer, self.nodes = self.nodes, []  # nodes of the body are collected apart; constants belong to the outer graph
        first = len(self.constants)  # makes names of the body's inputs and outputs unique
        inputs = [f"s{first}_{n}" for n in range(len(names) - fixed)]
        self.names.update((v, self.constant(c)) for v, c in zip(inner.jaxpr.constvars, inner.consts, strict=True))
        results = self.run(inner.jaxpr, [*names[:fixed], *inputs])
        targets = [f"t{first}_{n}" for n in range(len(results))]
        # A result may be an input or a value of the outer graph, which a graph cannot have as output: hence Identity.
        nodes = [*self.nodes, *(helper.make_node("Identity", [a], [b]) for a, b in zip(results, targets, strict=True))]
        body_inputs = [_declared(n, v.aval) for n, v in zip(inputs, inner.jaxpr.invars[fixed:], strict=True)]
        body_outputs = [_declared(n, v.aval) for n, v in zip(targets, inner.jaxpr.outvars, strict=True)]
        self.nodes = outer
        body = helper.make_graph(nodes, "step", body_inputs, body_outputs)
        return self.add("Scan", *names[fixed:], outputs=len(results), body=body,
                        num_scan_inputs=len(names) - fixed - carried)  # fmt: skip

    def _dot_general(self, equation: Any, x: str, y: str) -> str:
        """Export a product as MatMul of reshaped operands, or as MatMulInteger for two matrices of i8."""
        ((left, right), (left_batch, right_batch)) = equation.params["dimension_numbers"]
        a, b = equation.invars[0].aval, equation.invars[1].aval
        if a.dtype == np.int8:
            is_matrix_product = (a.ndim, b.ndim) == (2, 2) and (tuple(left), tuple(right)) == ((1,), (0,))
            if not is_matrix_product:
                raise NotExported("a product of integers that is no plain one has no counterpart here")
            return self.add("MatMulInteger", x, y)
        x, rows = self._matrices(x, a.shape, left_batch, left, last=True)  # sizes of the axes that become rows
        y, columns = self._matrices(y, b.shape, right_batch, right, last=False)
        product = self.add("MatMul", x, y)
        shape = equation.outvars[0].aval.shape
        return product if len(rows) == 1 and len(columns) == 1 else self.add("Reshape", product, self.ints(shape))

    def _matrices(
        self, x: str, shape: Sequence[int], batch: Sequence[int], summed: Sequence[int], last: bool
    ) -> tuple[str, list[int]]:
        """Transpose and reshape an operand for MatMul: to [batch..., rows, summed] or [batch..., summed, columns].

        Args:
            x: Name of the operand.
            shape: Its shape.
            batch: Its batch axes.
            summed: The axes that are summed over.
            last: Whether the summed axis is to be the last one, which it is for the left operand.

        Returns:
            Name of the reshaped operand, and the sizes of the axes that became its rows or columns.
        """
        others = [d for d in range(len(shape)) if d not in batch and d not in summed]
        order = [*batch, *others, *summed] if last else [*batch, *summed, *others]
        if order != list(range(len(shape))):
            x = self.add("Transpose", x, perm=order)
        rows, middle = [shape[d] for d in others], int(np.prod([shape[d] for d in summed]))
        if len(rows) != 1 or len(summed) != 1:  # several axes, or none, become one
            count = int(np.prod(rows))
            sizes = [*(shape[d] for d in batch), *((count, middle) if last else (middle, count))]
            x = self.add("Reshape", x, self.ints(sizes))
        return x, rows

    def _conv_general_dilated(self, equation: Any, x: str, w: str) -> str:
        """Export a convolution as Conv between transpositions from JAX's layouts to channels first and back."""
        p = equation.params
        layouts = p["dimension_numbers"]
        if p["batch_group_count"] != 1 or any(n != 1 for n in p["lhs_dilation"]):
            raise NotExported("a convolution of a gradient has no counterpart here")
        x = self.add("Transpose", x, perm=list(layouts.lhs_spec))
        w = self.add("Transpose", w, perm=list(layouts.rhs_spec))
        low, high = zip(*p["padding"], strict=True)
        sums = self.add(
            "Conv", x, w, strides=list(p["window_strides"]), pads=[*low, *high], dilations=list(p["rhs_dilation"]),
            group=p["feature_group_count"],
        )  # fmt: skip
        return self.add("Transpose", sums, perm=list(np.argsort(layouts.out_spec)))  # the inverse of out_spec

    def _reduce_window_max(self, equation: Any, x: str) -> str:
        """Export a maximum over windows of the spatial axes of an image whose channels are the last axis."""
        p = equation.params
        rank = len(p["window_dimensions"])
        # Permutations to channels first, which MaxPool needs, and back.
        front, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        low, high = zip(*p["padding"][1:-1], strict=True)
        maxima = self.add(
            "MaxPool", self.add("Transpose", x, perm=front), kernel_shape=list(p["window_dimensions"][1:-1]),
            strides=list(p["window_strides"][1:-1]), pads=[*low, *high],
        )  # fmt: skip
        return self.add("Transpose", maxima, perm=back)


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    """Return the declaration of an input or output of a graph. value: an array, or an abstract value of JAX."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape)


class Session:
    """A model in onnxruntime with its arguments bound. `call` runs it; `results` runs it and returns the results."""

    def __init__(self, model: onnx.ModelProto, inputs: Sequence[np.ndarray], workers: int) -> None:
        """Load an ONNX model with `workers` threads. inputs: in the order of the graph's inputs."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = workers, 1
        options.log_severity_level = 3
        # Threads that spin after a call would take CPU time from the next contender.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        binding = session.io_binding()
        for node_input, array in zip(session.get_inputs(), inputs, strict=True):
            binding.bind_cpu_input(node_input.name, array)
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")
        self.call: Callable[[], Any] = lambda: session.run_with_iobinding(binding)
        self._binding = binding

    def results(self) -> list[np.ndarray]:
        """Run the model, and return copies of its results."""
        self.call()
        return list(self._binding.copy_outputs_to_cpu())


def onnx_model(model: Model) -> onnx.ModelProto:
    """Return a model in ONNX, with its weights as initializers.

    Raises:
        NotExported: The model has an operation that this exporter cannot write.
    """
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in model.inputs]
    traced = jax.make_jaxpr(model.function)(model.weights, *specs)
    exporter = Exporter()
    arguments = model.arguments()
    count = len(arguments) - len(model.inputs)  # of weights, which come first
    weights = [exporter.constant(w) for w in arguments[:count]]
    inputs = [f"x{n}" for n in range(len(model.inputs))]
    exporter.names.update((v, exporter.constant(c)) for v, c in zip(traced.jaxpr.constvars, traced.consts, strict=True))
    results = exporter.run(traced.jaxpr, [*weights, *inputs])
    outputs = [exporter.add("Identity", name) for name in results]

    graph = helper.make_graph(
        exporter.nodes, model.name, [_declared(n, x) for n, x in zip(inputs, model.inputs, strict=True)],
        [_declared(n, v.aval) for n, v in zip(outputs, traced.jaxpr.outvars, strict=True)], exporter.constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def onnx_session(model: Model, workers: int) -> Session | None:
    """Return a model in onnxruntime with `workers` threads; None for one that cannot be exported."""
    try:
        return Session(onnx_model(model), model.inputs, workers)
    except NotExported:
        return None
