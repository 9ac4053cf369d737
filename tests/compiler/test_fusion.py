"""Grouping of elementwise operations: what joins, and what must not."""

from __future__ import annotations

import random

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult

from pydispatch import ir
from pydispatch.compiler.analysis.kinds import inputs_of
from pydispatch.compiler.fusion.groups import form_groups
from pydispatch.compiler.outline.form import form_dispatches, host_functions

KERNEL = """
  stream.executable private @k {
    stream.executable.export public @id workgroups() -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %one, %one, %one : index, index, index
    }
    builtin.module { func.func @id(%a: !stream.binding, %b: !stream.binding) { return } }
  }
"""


def module(
    body: str, arguments: str = "%a: tensor<4xf32>, %b: tensor<4xf32>", results: str = "tensor<4xf32>"
) -> ModuleOp:
    return ir.parse(f"{KERNEL}\nfunc.func @f({arguments}) -> {results} {{\n{body}\n}}")


def group_names(m: ModuleOp) -> list[list[str]]:
    block = host_functions(m)[0].regions[0].block
    return [[op.results[0].name_hint or "?" for op in group] for group in form_groups(block)[0]]


def test_a_chain_is_one_group() -> None:
    m = module("""%x = arith.addf %a, %b : tensor<4xf32>
                  %y = math.absf %x : tensor<4xf32>
                  %z = arith.negf %y : tensor<4xf32>
                  return %z : tensor<4xf32>""")
    assert group_names(m) == [["x", "y", "z"]]


def test_a_value_may_not_leave_and_come_back() -> None:
    m = module("""%x = arith.addf %a, %b : tensor<4xf32>
                  %k = flow.dispatch @k::@id(%x) : (tensor<4xf32>) -> tensor<4xf32>
                  %y = arith.addf %x, %k : tensor<4xf32>
                  return %y : tensor<4xf32>""")
    assert group_names(m) == [["x"], ["y"]]


def test_not_through_another_group_either() -> None:
    # p may not join x: x -> k -> y -> p would then need its own result.
    m = module("""%x = arith.addf %a, %b : tensor<4xf32>
                  %k = flow.dispatch @k::@id(%x) : (tensor<4xf32>) -> tensor<4xf32>
                  %y = arith.negf %k : tensor<4xf32>
                  %p = arith.mulf %x, %y : tensor<4xf32>
                  return %p : tensor<4xf32>""")
    assert group_names(m) == [["x"], ["y", "p"]]


def test_independent_producers_are_joined_by_their_consumer() -> None:
    m = module("""%x = arith.addf %a, %b : tensor<4xf32>
                  %y = arith.mulf %a, %b : tensor<4xf32>
                  %z = arith.subf %x, %y : tensor<4xf32>
                  return %z : tensor<4xf32>""")
    assert group_names(m) == [["x", "y", "z"]]


def test_splats_and_small_constants_move_into_the_dispatch_and_large_ones_do_not() -> None:
    ramp = ", ".join(f"{n}.0" for n in range(65))
    m = module(
        f"""%one = arith.constant dense<1.0> : tensor<65xf32>
            %ramp = arith.constant dense<[{ramp}]> : tensor<65xf32>
            %few = arith.constant dense<[7.0]> : tensor<1xf32>
            %x = arith.addf %a, %one : tensor<65xf32>
            %y = arith.mulf %x, %ramp : tensor<65xf32>
            %z = math.exp %few : tensor<1xf32>
            return %y, %z : tensor<65xf32>, tensor<1xf32>""",
        "%a: tensor<65xf32>",
        "(tensor<65xf32>, tensor<1xf32>)",
    )
    form_dispatches(m)
    text = ir.print_module(m)
    inside, host = text[: text.index("func.func @f(")], text[text.index("func.func @f(") :]
    assert "dense<1." in inside and "dense<7." in inside and "[0.0" not in inside
    assert "dense<[0.0" in host and host.count("arith.constant") == 1


def test_constants_from_another_block_have_the_order_of_their_readers() -> None:
    # so many that a set of operations, which is ordered by their addresses, has another order
    count = 90
    constants = "\n".join(f"%c{i} = arith.constant dense<{i}.0> : tensor<4xf32>" for i in range(count))
    body = "\n".join(f"%x{i + 1} = arith.mulf %x{i}, %c{i} : tensor<4xf32>" for i in range(count))
    m = module(
        f"{constants}\ncf.br ^next(%a : tensor<4xf32>)\n^next(%x0: tensor<4xf32>):\n{body}\n"
        f"return %x{count} : tensor<4xf32>"
    )
    (group,), _ = form_groups(host_functions(m)[0].regions[0].blocks[1])
    names = [op.name for op in group]
    assert names == ["arith.constant"] * count + ["arith.mulf"] * count
    constant_of_reader = [op.operands[1].owner for op in group[count:]]
    assert group[:count] == constant_of_reader


def test_values_used_outside_become_results() -> None:
    m = module(
        """%x = arith.addf %a, %b : tensor<4xf32>
                  %y = arith.negf %x : tensor<4xf32>
                  return %x, %y : tensor<4xf32>, tensor<4xf32>""",
        results="(tensor<4xf32>, tensor<4xf32>)",
    )
    form_dispatches(m)
    m.verify()
    assert ir.print_module(m).count("flow.dispatch @f_dispatch_0") == 1


def random_program(rng: random.Random) -> str:
    """A function of random elementwise operations and opaque dispatches over earlier values."""
    names, lines = ["a", "b"], []
    for i in range(rng.randint(2, 14)):
        x, y = rng.choice(names), rng.choice(names)
        if rng.random() < 0.35:
            lines.append(f"%v{i} = flow.dispatch @k::@id(%{x}) : (tensor<4xf32>) -> tensor<4xf32>")
        else:
            lines.append(f"%v{i} = arith.addf %{x}, %{y} : tensor<4xf32>")
        names.append(f"v{i}")
    return "\n".join(lines) + f"\nreturn %{names[-1]} : tensor<4xf32>"


@pytest.mark.parametrize("seed", range(60))
def test_groups_can_always_be_ordered(seed: int) -> None:
    """Contracting each group to a node must leave no circle; and every operation keeps its inputs in front of it."""
    m = module(random_program(random.Random(seed)))
    block = host_functions(m)[0].regions[0].block
    owner = {op: i for i, group in enumerate(form_groups(block)[0]) for op in group}
    edges: dict[object, set[object]] = {}
    for op in block.ops:
        node = owner.get(op, op)
        for value in inputs_of(op):
            if isinstance(value, OpResult) and owner.get(value.op, value.op) != node:
                edges.setdefault(node, set()).add(owner.get(value.op, value.op))
    done: set[object] = set()

    def visit(node: object, path: tuple[object, ...]) -> None:
        assert node not in path, "a group depends on itself"
        if node not in done:
            for before in edges.get(node, ()):
                visit(before, (*path, node))
            done.add(node)

    for node in list(edges):
        visit(node, ())
    form_dispatches(m)
    m.verify()
    seen: set[object] = set()
    for op in host_functions(m)[0].regions[0].block.ops:
        assert all(v.op in seen for v in op.operands if isinstance(v, OpResult))
        seen.add(op)
