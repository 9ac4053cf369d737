"""Reads an exported program from the JSON schema of torch.export, version 8.x."""

from __future__ import annotations

from collections.abc import Callable

from pydispatch.frontends.torch.json_value import JsonValue, ProgramFault
from pydispatch.frontends.torch.schema import (
    Argument,
    ExportedGraph,
    ExportedNode,
    ExportedProgram,
    GraphInput,
    GraphOutput,
    OpaqueArgument,
    SizeText,
    Symbolic,
    SymbolRange,
    TensorMeta,
    ValueName,
)
from pydispatch.graph.dtypes import DTYPES, DType

MAJOR = 8
"""Major version of the schema."""

_SCALAR_TYPES = {
    1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 10: "c64", 11: "c128", 12: "bool",
    13: "bf16", 28: "u16", 29: "f8E4M3FN", 30: "f8E5M2", 31: "f8E4M3FNUZ", 32: "f8E5M2FNUZ", 33: "f8E8M0FNU", 34: "u32",
    35: "u64",
}  # fmt: skip
"""Names of the element types by their codes in a file."""

_STRIDED = 7  # code of the layout of dense tensors (torch.strided) in a file


def read_program(json: JsonValue) -> ExportedProgram:
    """Read an exported program. Raise ProgramFault for an unsupported schema version and for invalid contents."""
    version = json.get("schema_version")
    major, minor = version.get("major").integer(), version.get("minor").integer()
    if major != MAJOR:
        raise version.fault(
            f"the schema has version {major}.{minor}; {MAJOR}.x is known: export the model with PyTorch 2.5 or newer"
        )
    module = json.get("graph_module")
    signature = module.get("signature")
    return ExportedProgram(
        graph=read_graph(module.get("graph")),
        inputs=tuple(_read_input(v) for v in signature.get("input_specs").elements()),
        outputs=tuple(_read_output(v) for v in signature.get("output_specs").elements()),
        ranges={name: _range(v) for name, v in json.get("range_constraints").items()},
        guards=tuple(v.text() for v in guards.elements()) if (guards := json.maybe("guards_code")) else (),
        names=_argument_names(module),
        torch_version=made_by.text() if (made_by := json.maybe("torch_version")) else "unknown",
    )


def _range(value: JsonValue) -> SymbolRange:
    """Read the bounds of a symbol."""
    least, most = value.maybe("min_val"), value.maybe("max_val")
    return SymbolRange(least.integer() if least else None, most.integer() if most else None)


def _argument_names(module: JsonValue) -> tuple[str, ...]:
    """Return the names of the arguments of the model's function; none if the file does not state them."""
    for entry in module.get("module_call_graph").elements():
        # The empty path names the model itself, other paths its submodules.
        if entry.get("fqn").text() == "" and (signature := entry.maybe("signature")):
            names = signature.maybe("forward_arg_names")
            return tuple(v.text() for v in names.elements()) if names else ()
    return ()


# -- graphs


def read_graph(value: JsonValue) -> ExportedGraph:
    """Read a graph and its nested graphs. Raise ProgramFault for invalid contents."""
    return ExportedGraph(
        inputs=tuple(read_argument(a) for a in value.get("inputs").elements()),
        outputs=tuple(read_argument(a) for a in value.get("outputs").elements()),
        nodes=tuple(_node(n, i) for i, n in enumerate(value.get("nodes").elements())),
        tensors={name: read_tensor_meta(meta) for name, meta in value.get("tensor_values").items()},
        numbers={name: _size(size) for name, size in value.get("sym_int_values").items()},
    )


_POSITIONAL, _KEYWORD = 1, 2  # the schema's codes for how an argument is passed


def _node(value: JsonValue, index: int) -> ExportedNode:
    """Read a node, a call of an operator. Arguments are positional unless the file says that they are keywords.

    index: position of the node in the graph, which names the node if neither the file nor a result does.

    Raise ProgramFault for invalid contents, and for a keyword argument that is passed twice.
    """
    target = value.get("target").text()
    # Read the arguments, and the parameter names of positional ones. Errors get the name of the called operator.
    try:
        positional: list[Argument] = []
        parameters: list[str] = []
        keywords: dict[str, Argument] = {}
        for entry in value.get("inputs").elements():
            argument = read_argument(entry.get("arg"))
            kind = entry.maybe("kind")
            name = entry.get("name").text()
            if name and kind is not None and kind.integer() == _KEYWORD:
                if name in keywords:
                    raise entry.fault(f"the argument '{name:.80}' is there twice")
                keywords[name] = argument
            else:
                positional.append(argument)
                parameters.append(name)
        results = tuple(read_argument(o) for o in value.get("outputs").elements())
    except ProgramFault as fault:
        raise ProgramFault(f"{fault} (a call of {target:.120})") from None
    # The name of the node, and its module and source line, which are in the metadata.
    metadata = value.get("metadata")
    own_name = value.maybe("name")
    return ExportedNode(
        target=target, positional=tuple(positional), parameters=tuple(parameters), keywords=keywords, results=results,
        name=own_name.text() if own_name else _first_name(results) or f"node {index}",
        module=_module(metadata), line=_line(metadata),
    )  # fmt: skip


def _first_name(results: tuple[Argument, ...]) -> str:
    """Return the name of the first result that is a single value; "" without one."""
    return next((r.name for r in results if isinstance(r, ValueName)), "")


def _module(metadata: JsonValue) -> str:
    """Return the path of the innermost module that contains a node, such as `layer1.0.conv2`; "" if it is not known.

    The metadata is a text with `key,path,class` for each module, from the outermost on, separated by `;`.
    """
    stack = metadata.maybe("nn_module_stack")
    if stack is None:
        return ""
    parts = stack.text().rsplit(";", 1)[-1].split(",")
    if len(parts) < 3 or parts[0].startswith("_empty_nn_module_stack"):
        return ""
    return parts[1].partition("@")[0]  # if a module is called again, its path in call number n is `path@n`


def _line(metadata: JsonValue) -> str:
    """Return the line `File "...", line ..., in ...` of the innermost frame of a node's stack trace; "" without one."""
    trace = metadata.maybe("stack_trace")
    frames = [line.strip() for line in trace.text().splitlines() if line.lstrip().startswith("File ")] if trace else []
    return frames[-1] if frames else ""


def read_tensor_meta(value: JsonValue) -> TensorMeta:
    """Read the type and the layout of a tensor. Raise ProgramFault for sparse tensors and invalid contents."""
    layout = value.get("layout").integer()
    if layout != _STRIDED:
        raise value.fault(f"the tensor is not dense (layout {layout})")
    meta = TensorMeta(
        _dtype(value.get("dtype")), tuple(_size(n) for n in value.get("sizes").elements()),
        tuple(_size(n) for n in value.get("strides").elements()), _size(value.get("storage_offset")),
    )  # fmt: skip
    if len(meta.sizes) != len(meta.strides) or len(meta.sizes) > 32:
        raise value.fault(f"{len(meta.sizes)} sizes and {len(meta.strides)} strides")
    return meta


def _dtype(value: JsonValue) -> DType:
    """Read an element type."""
    name = _SCALAR_TYPES.get(value.integer())
    if name is None:
        raise value.fault(f"element type {value.integer()} is not supported")
    return DTYPES[name]


def _size(value: JsonValue) -> SizeText:
    """Read a size: a number, or an expression. Raise ProgramFault for another tag."""
    tag, inner = value.tagged()
    if tag == "as_int":
        return inner.size()
    if tag == "as_expr":
        return Symbolic(inner.get("expr_str").text())
    raise value.fault(f"a size is tagged '{tag:.80}'")


# -- arguments


def read_argument(value: JsonValue) -> Argument:
    """Read a tagged argument. Raise ProgramFault for an unknown tag."""
    tag, inner = value.tagged()
    read = _ARGUMENTS.get(tag)
    if read is None:
        raise value.fault(f"an argument is tagged '{tag:.80}', which is not known")
    return read(inner)


def _name(value: JsonValue) -> ValueName:
    """Read a reference to a value."""
    return ValueName(value.get("name").text())


def _symbol(value: JsonValue) -> Argument:
    """Read a scalar argument: a reference to a computed number, or a constant. Raise ProgramFault for another tag."""
    tag, inner = value.tagged()
    if tag == "as_name":
        return ValueName(inner.text())
    return {"as_int": JsonValue.integer, "as_float": JsonValue.number, "as_bool": JsonValue.truth}.get(tag, _unknown)(
        inner
    )


def _unknown(value: JsonValue) -> Argument:
    """Raise ProgramFault: the tag of `value` is unknown. It is called in place of a reader of such constants."""
    raise value.fault("the value is tagged with a kind that is not known")


def _optional_tensor(value: JsonValue) -> Argument:
    """Read a reference to a tensor; None for an absent one."""
    tag, inner = value.tagged()
    return None if tag == "as_none" else _name(inner)


def _list_of(read: Callable[[JsonValue], Argument]) -> Callable[[JsonValue], Argument]:
    """Return a reader of a list of arguments, each of which `read` reads."""
    return lambda v: tuple(read(item) for item in v.elements())


def _opaque(kind: str) -> Callable[[JsonValue], Argument]:
    """Return a reader of arguments of a kind that does not affect the result. Their text is for messages only."""
    return lambda v: OpaqueArgument(kind, str(v.raw)[:80])


_ARGUMENTS: dict[str, Callable[[JsonValue], Argument]] = {
    "as_none": lambda v: None,
    "as_tensor": _name,
    "as_tensors": _list_of(_name),
    "as_int": JsonValue.integer,
    "as_ints": _list_of(JsonValue.integer),
    "as_float": JsonValue.number,
    "as_floats": _list_of(JsonValue.number),
    "as_string": JsonValue.text,
    "as_strings": _list_of(JsonValue.text),
    "as_sym_int": _symbol,
    "as_sym_ints": _list_of(_symbol),
    "as_scalar_type": _dtype,
    "as_memory_format": _opaque("memory format"),
    "as_layout": _opaque("layout"),
    "as_device": _opaque("device"),
    "as_bool": JsonValue.truth,
    "as_bools": _list_of(JsonValue.truth),
    "as_sym_bool": _symbol,
    "as_sym_bools": _list_of(_symbol),
    "as_graph": lambda v: read_graph(v.get("graph")),
    "as_optional_tensors": _list_of(_optional_tensor),
    "as_custom_obj": lambda v: OpaqueArgument("object", v.get("class_fqn").text()),
    "as_operator": lambda v: OpaqueArgument("operator", v.text()),
    "as_sym_float": _symbol,
    "as_sym_floats": _list_of(_symbol),
    "as_optional_tensor": _optional_tensor,
    "as_complex": lambda v: complex(v.get("real").number(), v.get("imag").number()),
    "as_nested_tensors": _list_of(_list_of(_name)),
    "as_int_lists": _list_of(_list_of(JsonValue.integer)),
    "as_float_lists": _list_of(_list_of(JsonValue.number)),
    "as_string_to_argument": lambda v: {key: read_argument(item) for key, item in v.items()},
}
"""Reader of each kind of argument, by its tag in the schema."""


# -- the signature


def _read_input(value: JsonValue) -> GraphInput:
    """Read an input of the main graph from the signature: its kind, its name, and the weight or constant that it is.

    Raise ProgramFault for an unsupported kind.
    """
    kind, spec = value.tagged()
    if kind == "user_input":
        return GraphInput(kind, read_argument(spec.get("arg")))
    if kind == "constant_input":
        return GraphInput(kind, ValueName(spec.get("name").text()), value=read_argument(spec.get("value")))
    if kind == "token":
        return GraphInput(kind, _name(spec.get("arg")))
    if kind in _WEIGHTS:  # the value of _WEIGHTS is the key of the name in the model
        return GraphInput(kind, _name(spec.get("arg")), spec.get(_WEIGHTS[kind]).text())
    raise value.fault(f"an input is a '{kind:.80}', which programs without PyTorch cannot have")


_WEIGHTS = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
"""Kinds of inputs that are stored in the file -> the field with the name in the model."""


def _read_output(value: JsonValue) -> GraphOutput:
    """Read an output of the main graph from the signature: its kind, its value, and the input that it updates, if any.

    Raise ProgramFault for an unsupported kind.
    """
    kind, spec = value.tagged()
    if kind in ("user_output", "loss_output"):  # a loss is a tensor, so its argument has no tag
        argument = spec.get("arg")
        return GraphOutput("user_output", _name(argument) if kind == "loss_output" else read_argument(argument))
    if kind == "token":
        return GraphOutput(kind, _name(spec.get("arg")))
    if kind in _MUTATIONS:  # the third argument is the name of the updated tensor, or of that whose gradient it is
        return GraphOutput(kind, _name(spec.get("arg")), spec.get(_MUTATIONS[kind]).text())
    raise value.fault(f"an output is a '{kind:.80}', which is not supported")


_MUTATIONS = {
    "buffer_mutation": "buffer_name", "parameter_mutation": "parameter_name", "user_input_mutation": "user_input_name",
    "gradient_to_parameter": "parameter_name", "gradient_to_user_input": "user_input_name",
}  # fmt: skip
"""Kinds of outputs that update an argument or a weight, or are its gradient -> the field with its name."""
