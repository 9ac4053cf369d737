"""The options of `pydispatch.compile`, each stated once: name, type, default, documentation and command-line flag.

The signature and docstring of `pydispatch.compile`, the flags of the command line, the defaults of the compiler and the
reference are derived from the annotations of `CompileOptions`.
"""

# Annotations are evaluated, not strings: each contains the `Option` that documents() and completed() read.
import inspect
import os
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypedDict, TypeVar, cast

from pydispatch.suggestions import did_you_mean

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Flag:
    """Flag of an option on the command line. A flag of an option that is True or False has no value.

    Attributes:
        spellings: The preferred spelling, then alternatives such as those of IREE's tools.
        metavar: Name of the value in the help.
        repeatable: Whether the flag may be repeated; the values become a list.
        parse: Converts the text of one value; raises ValueError for a malformed one.
        choices: The permitted values, if there are few.
        note: What only the command line's help says, after the option's summary.
    """

    spellings: tuple[str, ...]
    metavar: str | None = None
    repeatable: bool = False
    parse: Callable[[str], object] = str
    choices: tuple[str, ...] | None = None
    note: str = ""


@dataclass(frozen=True)
class Option:
    """Default and documentation of an option.

    Attributes:
        default: Value of an option that is not given.
        summary: One sentence for the docstring and for the help of the command line.
        details: Further sentences of the docstring.
        default_note: Meaning of the default, if its value does not tell.
        flag: Flag on the command line, if it has one.
        type: Type of the values; in `OPTIONS` that of the annotation in `CompileOptions`.
    """

    default: object
    summary: str
    details: str = ""
    default_note: str = ""
    flag: Flag | None = None
    type: Any = Any

    @property
    def text(self) -> str:
        """The sentences of the docstring."""
        default = f"Default: {self.default_note}." if self.default_note else ""
        return " ".join(filter(None, (self.summary, self.details, default)))

    @property
    def help(self) -> str:
        """The help of the flag: clauses separated by semicolons.

        Quotes and backquotes are removed, as a value is written without them on the command line: "cpu" becomes cpu.
        """
        summary = self.summary.removesuffix(".")
        if summary[1].islower():  # a summary that begins with an acronym keeps its capitals
            summary = summary[0].lower() + summary[1:]
        clauses = [summary, self.flag.note if self.flag else ""]
        clauses.append("repeatable" if self.flag and self.flag.repeatable else "")
        clauses.append(f"default: {self.default_note}" if self.default_note else "")
        return "; ".join(filter(None, clauses)).replace('"', "").replace("`", "")


class CompileOptions(TypedDict, total=False):
    """Keyword arguments of `pydispatch.compile`, `from_jax` and `from_torch`, to be given or collected and passed on.

    Example:
        >>> options: pd.CompileOptions = {"targets": "cpu", "cpu": "native"}
        >>> artifact = pd.compile("model.onnx", **options)
    """

    targets: Annotated[str | Sequence[str] | None, Option(
        None,
        'Machines to compile for: "cpu" (this machine), "x86_64", "aarch64", "riscv64", "vulkan", "webgpu", "cuda", '
        '"sm_80" and the like.',
        details="One or several.",
        default_note="the module's `hal.device.targets`, else this machine's CPU",
        flag=Flag(
            ("--target", "--iree-hal-target-backends", "--iree-hal-target-device",
             "--iree-hal-local-target-device-backends"),
            "NAME", repeatable=True,
        ),
    )]  # fmt: skip
    cpu: Annotated[str | Sequence[str] | None, Option(
        None,
        'CPUs to compile for: "generic", "native", "x86-64-v3" and the like; of several, each becomes a variant.',
        default_note='"generic", which runs on every machine of the architecture, and "native"',
        flag=Flag(("--cpu", "--iree-llvmcpu-target-cpu"), "CPU", repeatable=True),
    )]  # fmt: skip
    cpu_features: Annotated[str, Option(
        "",
        'LLVM features of every CPU target, such as "+avx2,+fma".',
        flag=Flag(("--cpu-features", "--iree-llvmcpu-target-cpu-features"), "+A,+B"),
    )]  # fmt: skip
    object_search_path: Annotated[Sequence[str | os.PathLike[str]], Option(
        (),
        "Folders with object files, searched after the folder of the source file.",
        details="A file in both is an error. The working directory is searched last, with a warning.",
        flag=Flag(
            ("-L", "--object-search-path", "--iree-hal-executable-object-search-path"), "FOLDER", repeatable=True
        ),
    )]  # fmt: skip
    dump: Annotated[str | os.PathLike[str] | None, Option(
        None,
        "Folder that receives every intermediate: IR, LLVM IR, assembly, ELF.",
        flag=Flag(("--dump", "--iree-hal-dump-executable-files-to"), "FOLDER"),
    )]  # fmt: skip
    transform_spec: Annotated[Any, Option(
        None,
        "Specs in the transform dialect of patterns to match and replace.",
        details="One, a list, or a mapping from the phase that they attach to (see docs/match-and-replace.md). Each is "
        "given like `source`.",
        flag=Flag(
            ("--transform-spec", "--iree-preprocessing-transform-spec-filename"), "[PHASE=]FILE", repeatable=True,
            note="PHASE: preprocessing, the default, input or global-optimization",
        ),
    )]  # fmt: skip
    pdl_spec: Annotated[Any, Option(
        None,
        "Specs in the PDL dialect of patterns to match and replace, in the same forms as transform specs.",
        flag=Flag(("--pdl-spec", "--iree-preprocessing-pdl-spec-filename"), "[PHASE=]FILE", repeatable=True),
    )]  # fmt: skip
    patterns: Annotated[Sequence[Any], Option(
        (),
        "Patterns in Python to match and replace.",
        flag=Flag(("--patterns",), "FILE.py", repeatable=True, note="every @pydispatch.pattern of the file is applied"),
    )]  # fmt: skip
    require_match: Annotated[bool, Option(
        default=False,
        summary="Raise an error for a pattern that matches nothing, instead of a warning.",
        flag=Flag(("--require-match",)),
    )]  # fmt: skip
    explain: Annotated[bool, Option(
        default=False,
        summary="Print to stderr which operations each dispatch contains, and why neighbours were not fused.",
        flag=Flag(("--explain",)),
    )]  # fmt: skip
    reassociate: Annotated[bool, Option(
        default=True,
        summary="Let sums and products of floats be computed in another order than the written one, the same in every "
        "run, and softmax divide once per row.",
        details="If False, each operation is computed as written and unfused, which is slow.",
        flag=Flag(("--reassociate",), note="with --no-reassociate, operations are computed as written, which is slow"),
    )]  # fmt: skip
    activation_bits: Annotated[int, Option(
        24,
        "Bits of the integers that rows of activations may be rounded to in products by block-scaled weights: 24, 16 "
        "or 8.",
        details="Each element is off by at most 2^-23, 1/65024 or 1/254 of the largest of its block of weights. An "
        "operation that states its own, as `MatMulNBits` does by `accuracy_level` 2 to 4, keeps it. Only kernels that "
        "multiply bytes round; `reassociate=False` turns them off.",
        default_note="24, the accuracy of f32",
        flag=Flag(("--activation-bits",), "BITS", parse=int),
    )]  # fmt: skip
    weight_type: Annotated[str | None, Option(
        None,
        'Type that constant factors of f32 products are rounded to when they are packed: "bf16" or "f16".',
        details="Products read half of the bytes, widen them, and compute in f32. Each weight is off by at most 2^-9 "
        "or 2^-12 of itself. In f16, numbers below 6e-5 are off by more, and those above 65504 become infinite. "
        "`explain` lists the products that stay as they are.",
        default_note="the type that they have",
        flag=Flag(("--weight-type",), choices=("bf16", "f16")),
    )]  # fmt: skip
    precision: Annotated[str, Option(
        "f32",
        'Type that the factors of f32 products are rounded to: "f32", which leaves them, or "bf16".',
        details="Sums stay f32. Each factor is off by at most 2^-9 of itself, and CPUs with products of bf16 take "
        "numbers below 1.2e-38 as zero. `explain` lists the products that stay as they are.",
        flag=Flag(("--precision",), choices=("f32", "bf16")),
    )]  # fmt: skip
    kernels: Annotated[Mapping[str, Any] | None, Option(
        None,
        "Kernels of custom operations of a model, by name.",
        details='For example `{"mylib::swish": pydispatch.CFunction("swish.c", "swish")}`.',
        flag=Flag(
            ("--kernel",), "NAME=FILE:SYMBOL[:ARGUMENT,...]", repeatable=True,
            note="SYMBOL is a C function; ARGUMENTs are names of inputs, attributes, sizes or results (out), or count",
        ),
    )]  # fmt: skip
    weights: Annotated[str, Option(
        "embed",
        '"embed" stores the arrays of a model in the artifact; "external" leaves them out.',
        details='`device.load(artifact, parameters={"model": file})` then supplies them by name.',
        flag=Flag(
            ("--weights",), choices=("embed", "external"), note="run such an artifact with --parameters model=FILE"
        ),
    )]  # fmt: skip
    inputs: Annotated[Mapping[str, Sequence[int | str]] | None, Option(
        None,
        'Shapes that replace those of a model, by input name: `{"image": (1, 3, "h", "w")}`.',
    )]  # fmt: skip
    constants: Annotated[Mapping[str, Any] | None, Option(
        None,
        "Values of model inputs that become constants instead of arguments, by input name.",
    )]  # fmt: skip
    progress: Annotated[Callable[[Any], object] | None, Option(
        None,
        "Callback for compilations that take longer than two seconds.",
        details="It is called from any thread with a `progress.Progress`: the phase, the dispatch that was compiled "
        "last, and an estimate of the time left.",
    )]  # fmt: skip
    tune: Annotated[float | None, Option(
        None,
        "Seconds to spend on measuring alternative kernels, in addition to compiling; 0 uses stored measurements only.",
        details="None uses the defaults (see docs/tuning.md).",
        flag=Flag(("--tune",), "SECONDS", parse=float),
    )]  # fmt: skip
    tune_on: Annotated[Any, Option(
        None,
        "CPU device to measure on, with its plugins and imports.",
        default_note="all CPUs of this machine",
    )]  # fmt: skip


def _table() -> dict[str, Option]:
    """Return the option in each annotation of `CompileOptions`, with the annotated type, by name."""
    options = {}
    for name, annotated in CompileOptions.__annotations__.items():
        (option,) = annotated.__metadata__
        options[name] = replace(option, type=annotated.__origin__)
    return options


OPTIONS = _table()
"""The options by name."""

_DOCSTRING_COLUMNS = 112
"""Width of the lines that `documented` adds to docstrings, with their indentation in the section."""


def completed(options: Mapping[str, Any]) -> CompileOptions:
    """Return all options: `options`, and the defaults of others. Raise TypeError for an unknown option."""
    require_known(options, OPTIONS, "compile()")
    return cast(CompileOptions, {**{name: option.default for name, option in OPTIONS.items()}, **options})


def require_known(options: Iterable[str], known: Collection[str], taker: str) -> None:
    """Raise TypeError for a name of an option that is not among the `known` ones. taker: what takes the options."""
    if unknown := next((name for name in options if name not in known), None):
        raise TypeError(f"{taker} has no option '{unknown}'; {did_you_mean(unknown, known)}{', '.join(known)}")


def documented(function: Function) -> Function:
    """Decorate a function that takes `CompileOptions` as `**options`: its signature and docstring list the options.

    The signature gets a keyword-only parameter for each option in place of `**options`. In the section `Args:` of the
    docstring, the entry `options:`, a single line, is replaced by an entry for each option.
    """
    signature = inspect.signature(function)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    for name, option in OPTIONS.items():
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type)
        )
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    if function.__doc__ is not None:  # Python -OO removes docstrings
        lines = inspect.cleandoc(function.__doc__).splitlines()
        (at,) = (index for index, line in enumerate(lines) if line.startswith("    options:"))
        lines[at : at + 1] = [line for name in OPTIONS for line in _entry(name)]
        function.__doc__ = "\n".join(lines)
    return function


def _entry(name: str) -> list[str]:
    """Return the lines that document an option in the section `Args:` of a docstring."""
    return textwrap.wrap(
        f"{name}: {OPTIONS[name].text}", _DOCSTRING_COLUMNS, initial_indent=4 * " ", subsequent_indent=8 * " ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
