"""Insertion of the kernels of Python patterns as functions of the program, which calls then use in place of the
matches.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.match.edit.calls import Inserter, call_in_place
from pydispatch.compiler.match.edit.symbols import clone, table_of
from pydispatch.compiler.match.graph.matches import Match
from pydispatch.compiler.match.python.kernels import dispatch_of_kernel
from pydispatch.compiler.match.python.lower import Lowering
from pydispatch.compiler.match.python.match import Compiled, MatchInfo, user_function_error
from pydispatch.compiler.match.python.signature import MatchSignature, signature_of
from pydispatch.compiler.match.python.text import dispatch_of_c, dispatch_of_whole
from pydispatch.compiler.toolchain.bitcode import is_bitcode
from pydispatch.errors import CompileError
from pydispatch.formats.elf.reader import REL, identity
from pydispatch.formats.ptx.lex import is_ptx
from pydispatch.formats.spirv.module import MAGIC
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.core.walk import walk
from pydispatch.ir.functions import symbol_name
from pydispatch.kernels.ascii_names import ascii_names
from pydispatch.kernels.kernel import KernelSource
from pydispatch.locations import GeneratedText
from pydispatch.patterns import Pattern, Replacement
from pydispatch.patterns.kernels import CFunction, Generated, Traced, WholeKernel
from pydispatch.patterns.trace import Value, outputs_of


class Replacer:
    """Rewriter of one program that replaces matches of patterns by calls of kernels; equal kernels are inserted once.

    Attributes:
        program: The program.
        targets: Formats that it is compiled for, which generators may query.
        inserted: (name of a pattern, text of its functions before they are renamed) → name of the function to call.
    """

    def __init__(self, program: ModuleOp, targets: tuple[str, ...] = ()) -> None:
        """Begin with no kernel inserted into `program`, which is compiled for the formats `targets`."""
        self.program, self.targets = program, targets
        self.inserted: dict[tuple[str, str], str] = {}

    def describe(self, chosen: Replacement | None) -> str:
        """Return a description of the replacement of a match, for the report; "" for None."""
        kernel = None if chosen is None else chosen.kernel
        if isinstance(kernel, CFunction):
            return f"C function {kernel.symbol}"
        if isinstance(kernel, WholeKernel):
            return f"kernel {kernel.entry}"
        if isinstance(kernel, KernelSource):
            return f"kernel {kernel.name}"
        if isinstance(kernel, Generated):
            return f"what {getattr(kernel.make, '__name__', 'a function')} makes"
        if isinstance(kernel, Traced):
            return f"the computation of {getattr(kernel.function, '__name__', 'a function')}"
        return ""

    def replace(self, compiled: Compiled, match: Match, chosen: Replacement) -> None:
        """Replace a match by a call of its kernel: a function that is added to the program, unless an equal one exists.

        Raises:
            CompileError: The kernel does not fit, located at the match.
        """
        kernel: Any = chosen.kernel
        if isinstance(kernel, Generated):  # a function of the user generates the kernel for this match
            kernel = self._generated(compiled, match, kernel)
        inserter = Inserter(match.root, after=True)
        outputs = match.outputs
        # An input is None if the pattern only overwrites it, and the program lacks it. The kernel gets a tensor without
        # contents, with the dynamic sizes of the first output.
        tensor_with_sizes = outputs[0] if outputs else None
        inputs = [
            value if value is not None else inserter.empty(type, tensor_with_sizes)
            for value, type in zip(match.inputs, self._types(compiled, match), strict=True)
        ]
        try:
            text = self._text(compiled.pattern, kernel, inputs, outputs, match)
        except CompileError as error:
            raise CompileError(error.message, error.location or location_of(match.root), error.note) from None
        function = self._function(compiled.pattern.name, text, match.root)
        symbol = function.properties["sym_name"].data  # type: ignore[attr-defined]
        call_in_place(function, symbol, inputs, outputs, inserter, match.root)

    def _generated(self, compiled: Compiled, match: Match, kernel: Generated) -> Any:
        """Call the user's generator for this match, and return its kernel. Returned C text, or the bytes of an object,
        become a CFunction.
        """
        info = MatchInfo(compiled, match, self.targets)
        try:
            generated = kernel.make(info)
        except Exception as error:
            raise user_function_error("generator", compiled.name, error, match.root) from error
        if isinstance(generated, (str, bytes)):
            problem = _unfit(generated)
            if problem is not None:
                raise CompileError(f"the generator of pattern '{compiled.name}' returned {problem[0]}",
                                   location_of(match.root), problem[1])  # fmt: skip
            return CFunction(generated, info.symbol)
        return generated

    def _types(self, compiled: Compiled, match: Match) -> list[Any]:
        """Return the types that the inputs of a match are cast to: those of the pattern's inputs.

        The match of a matcher function has no pattern of operations: its inputs retain their types.
        """
        if compiled.dag is None:  # a matcher function
            return [v.type for v in match.inputs if v is not None]
        return [a.type for a in compiled.dag.inputs]

    def _text(
        self, pattern: Pattern, kernel: Any, inputs: list[SSAValue], outputs: list[SSAValue], match: Match
    ) -> str:
        """Generate the text of the functions that implement a kernel.

        The text names the function to call @NAME; the caller replaces it by a unique name.

        Raises:
            CompileError: The kernel is no kernel, or does not fit the match.
        """
        # A kernel may query any size by its name, so that static sizes have names, too. A traced function may not.
        signature = signature_of(pattern, inputs, outputs, match, names_static_sizes=not isinstance(kernel, Traced))
        if isinstance(kernel, Traced):
            return self._traced(pattern, kernel, signature)
        if isinstance(kernel, CFunction):
            return dispatch_of_c(pattern.name, kernel, signature)
        if isinstance(kernel, WholeKernel):
            return dispatch_of_whole(pattern.name, kernel, signature)
        if isinstance(kernel, KernelSource):
            return dispatch_of_kernel(pattern.name, kernel, signature)
        raise CompileError(f"pattern '{pattern.name}' was given {kernel!r} for a kernel",
                           note="a generator returns C text, the bytes of an object, a CFunction, pydispatch.ptx(...), "
                           "pydispatch.shader(...) or a WholeKernel")  # fmt: skip

    def _traced(self, pattern: Pattern, kernel: Traced, signature: MatchSignature) -> str:
        """Generate the text of a function that computes a traced replacement; `_function` replaces its name @NAME.

        The user's function is called once, with a `Value` for each input, and returns the `Value`s of the results.
        `Lowering` prints the operations that compute these. For `lambda x: abs(x)` in place of a pattern with the
        input `x: f32["n"]`, the text is:

            util.func private @NAME(%in_x: tensor<?xf32>) -> (tensor<?xf32>) {
            %v1 = arith.constant 0 : index
            %v2 = tensor.dim %in_x, %v1 : tensor<?xf32>
            %v3 = tensor.empty(%v2) : tensor<?xf32>
            %v4 = linalg.generic {...} ins(%in_x : ...) outs(%v3 : ...) {...} -> tensor<?xf32>
            util.return %v4 : tensor<?xf32>
            }

        Raises CompileError if its result types differ from the pattern's.
        """
        # The user's function has no parameters for inputs that are themselves sizes. The `detail` of an input is its
        # position among all inputs of the signature, sizes included, because `Lowering` looks it up there.
        tensors = [(i, type) for i, (name, type) in enumerate(signature.inputs) if not signature.is_size(name)]
        values = [Value(op="input", type=type, detail=input_index) for input_index, type in tensors]
        # The results, which must have the types of the pattern's.
        results = outputs_of(kernel.function(*values), getattr(kernel.function, "__name__", pattern.name))
        wanted = [t for _, t in signature.outputs]
        if [v.type.mlir for v in results] != [t.mlir for t in wanted]:
            raise CompileError(
                f"the replacement of pattern '{pattern.name}' gives ({', '.join(str(v.type) for v in results)}), "
                f"the pattern ({', '.join(map(str, wanted))})"
            )
        # The text of the function.
        lowering = Lowering(signature.inputs)
        names = [lowering.value(v) for v in results]
        types = ", ".join(v.type.mlir for v in results)
        body = "\n".join(lowering.lines)
        arguments = ", ".join(f"%in_{n}: {t.mlir}" for n, t in signature.inputs)
        return (
            f"util.func private @NAME({arguments}) -> ({types}) {{\n{body}\n"
            f"util.return {', '.join(names)} : {types}\n}}"
        )

    def _function(self, name: str, text: str, anchor: Operation) -> Operation:
        """Add the functions of `text` to the program under a unique name, and return the function to call.

        If the same text was added before, nothing is added. Errors in the operations name the location of `anchor`,
        except in a kernel of a GeneratedText, whose operations keep the locations that this text states.

        Args:
            name: Name of the pattern, from which the unique name is derived.
            text: MLIR text of the function @NAME and perhaps of a kernel @NAME_kernel that it dispatches.
            anchor: The operation of the program that matched.
        """
        key = (name, text)
        symbols = table_of(self.program)
        if key in self.inserted and self.inserted[key] in symbols:
            return symbols[self.inserted[key]]
        from pydispatch import ir

        self.inserted[key] = unique = _unused_name(ascii_names(f"@{name}").removeprefix("@"), symbols)
        # str.replace returns a plain str; a GeneratedText must remain one, for the locations that it states.
        source = type(text)(ascii_names(text.replace("@NAME", f"@{unique}")))
        parsed = ir.parse(source, f"<pattern {name}>")
        # Insert copies of the functions of the text before all others of the program.
        first = self.program.body.block.first_op
        assert first is not None
        for op in list(parsed.body.block.ops):
            copy = clone(op)
            is_kernel = symbol_name(copy) != unique  # else it is the function that dispatches the kernel
            states_locations = isinstance(text, GeneratedText) and is_kernel
            if not states_locations:
                for inner in walk(copy):
                    set_location(inner, anchor)
            self.program.body.block.insert_op_before(copy, first)
        return table_of(self.program)[unique]


def _unused_name(name: str, symbols: Container[str]) -> str:
    """Return a name that neither a function nor, with the suffix `_kernel`, a kernel of the program has.

    It is `name`, or that with a number, such as `relu_1`.
    """
    unused, n = name, 1
    while unused in symbols or f"{unused}_kernel" in symbols:
        unused, n = f"{name}_{n}", n + 1
    return unused


def _unfit(code: str | bytes) -> tuple[str, str] | None:
    """Return why generated code is no kernel by itself: its kind, and what to return instead.

    Return None for C text, an object or bitcode.
    """
    data = code.encode() if isinstance(code, str) else code
    if is_ptx(data):
        return "PTX without a grid", "return pydispatch.ptx(text, 'entry', constants=('n',), workgroups=(('n', 256),))"
    # SPIR-V begins with a magic number, in either byte order.
    if data[:4] in (MAGIC.to_bytes(4, "little"), MAGIC.to_bytes(4, "big")):
        return "SPIR-V without a grid", "return pydispatch.shader(data, constants=('n',), workgroups=(('n', 64),))"
    elf_identity = identity(data)  # None unless the bytes are an ELF file
    is_object = elf_identity is not None and elf_identity.type == REL
    if isinstance(code, bytes) and not is_object and not is_bitcode(data):
        return "bytes that are no object and no bitcode", "return C text, or say what they are with a WholeKernel"
    return None


__all__ = ["Replacer", "TensorType"]
