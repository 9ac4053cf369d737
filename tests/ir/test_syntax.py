"""What an operation prints, it reads: there is a text with every operation of our dialects, and all are read twice."""

from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.ir import dialects
from pydispatch.ir.core.refine import refinement
from pydispatch.ir.dialects.linalg import table

TESTS = Path(__file__).parents[1]
NAMES = {path.stem for path in Path(dialects.__file__).parent.iterdir() if path.stem[0] != "_"} | {"gpu"}
FILES = sorted(
    path
    for folder in ("ir/samples", "ir/data", "checks", "e2e/programs")
    for path in (TESTS / folder).rglob("*.mlir")
    if path.stat().st_size < 100_000
)

NAMED = Path("named")

UNUSED = {
    "gpu": "alloc all_reduce dealloc func host_register host_unregister lane_id launch launch_func memcpy module "
    "num_subgroups return set_default_device subgroup_id subgroup_size terminator wait yield",
    "memref": "alloca_scope alloca_scope.return dma_start dma_wait view",
    "affine": "vector_load vector_store",
}
"""Operations of the library that no program and no kernel has: their dialects are taken whole."""


def size(word: str) -> str:
    return f"{2 + word.count('+')}x"


def named() -> str:
    """Every operation of the tables of `linalg` once, with sizes of 2: `oh+kh` is 3."""
    rows = []
    for name in (*table.CONTRACTIONS, *table.CONVOLUTIONS, *table.POOLINGS):
        meaning = table.meaning(name)
        types = [
            "i32" if not words and number < len(meaning.inputs) else f"tensor<{''.join(map(size, words))}i32>"
            for number, words in enumerate((*meaning.inputs, meaning.output))
        ]
        rows.append((name, types))
    rows += [(name, ["tensor<4xf32>"] * (count + 1)) for name, count in table.ELEMENTWISE.items() if name != "select"]
    lines = []
    for number, (name, types) in enumerate(rows):
        values = [f"%v{number}_{i}" for i in range(len(types))]
        arguments = ", ".join(f"{value}: {type}" for value, type in zip(values, types, strict=True))
        lines.append(f"""func.func @{name}({arguments}) {{
          %r{number} = linalg.{name} ins({", ".join(values[:-1])} : {", ".join(types[:-1])})
            outs({values[-1]} : {types[-1]}) -> {types[-1]}
          return
        }}""")
    return "\n".join(lines)


@cache
def parsed(path: Path) -> ModuleOp:
    return ir.parse(named() if path is NAMED else path.read_text(), path.name)


@pytest.mark.parametrize("path", [NAMED, *FILES], ids=lambda path: path.stem)
def test_what_is_printed_is_read_again(path: Path) -> None:
    module = parsed(path)
    text = ir.print_module(module)
    again = ir.parse(text, "printed")
    assert module.is_structurally_equivalent(again)
    assert ir.print_module(again) == text


def test_every_operation_has_a_text() -> None:
    seen = {op.name for path in (NAMED, *FILES) for op in parsed(path).walk()}
    context = ir.context()
    operations = {op.name: op for name in NAMES for op in context.get_dialect(name).operations}
    unused = {f"{dialect}.{name}" for dialect, names in UNUSED.items() for name in names.split()}
    assert operations.keys() - seen == unused
    ours = [name for name in unused if operations[name].__module__.startswith("pydispatch")]
    assert not ours
    assert not [name for name in unused if refinement(operations[name]) is not None]
