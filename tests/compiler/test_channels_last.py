"""Networks whose images have channels first and whose filters are constants: computed with channels last, or as before
where that does not pay, and the same as in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import machine_levels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.compiler.constants.sink import in_order, replace
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.fusion.dim_orders import transposed
from pydispatch.ir import parse

Array = np.ndarray[Any, Any]


@dataclass
class Network:
    """A program, the parameters that it needs, and its result in f64, built layer by layer.

    any_batch: whether the number of images is dynamic.
    """

    x: Array
    rng: np.random.Generator
    any_batch: bool = False
    lines: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    parameters: dict[str, Array] = field(default_factory=dict)
    value: str = "%x"

    def __post_init__(self) -> None:
        self.y = self.x.astype(np.float64)
        self.lines += ["%zero = arith.constant 0.0 : f32", "%low = arith.constant 0xFF800000 : f32"]
        if self.any_batch:
            self.lines.append("%first = arith.constant 0 : index")
            self.lines.append(f"%n = tensor.dim %x, %first : {self.type(*self.x.shape)}")

    def name(self) -> str:
        return f"%v{len(self.lines)}"

    def put(self, text: str, y: Array) -> None:
        self.value, self.y = self.name(), y
        self.lines.append(f"{self.value} = {text}")

    def type(self, *sizes: int) -> str:
        """Of images, of such or of the present sizes."""
        sizes = sizes or self.y.shape
        return f"tensor<{'x'.join(['?' if self.any_batch else str(sizes[0]), *map(str, sizes[1:])])}xf32>"

    def batch(self) -> str:
        return "%n" if self.any_batch else str(len(self.y))

    def constant(self, *sizes: int) -> tuple[str, Array]:
        name = f"w{len(self.parameters)}"
        scale = np.float32(np.prod(sizes[1:]) ** 0.5)
        self.parameters[name] = self.rng.standard_normal(sizes, dtype=np.float32) / scale
        self.globals.append(f'util.global private @{name} = #flow.parameter.named<"m"::"{name}"> : {weights(*sizes)}')
        value = self.name()
        self.lines.append(f"{value} = util.global.load @{name} : {weights(*sizes)}")
        return value, self.parameters[name]

    def fill(self, with_: str, *sizes: int) -> str:
        empty, value = self.name(), f"%f{len(self.lines)}"
        self.lines.append(f"{empty} = tensor.empty({'%n' * self.any_batch}) : {self.type(*sizes)}")
        self.lines.append(f"{value} = linalg.fill ins({with_} : f32) outs({empty} : {self.type(*sizes)})"
                          f" -> {self.type(*sizes)}")  # fmt: skip
        return value

    def pad(self, by: int, with_: str = "%zero") -> None:
        if by:
            old = self.type()
            y = np.pad(self.y, ((0, 0), (0, 0), (by, by), (by, by)), constant_values=0 if with_ == "%zero" else -np.inf)
            self.put(f"tensor.pad {self.value} low[0, 0, {by}, {by}] high[0, 0, {by}, {by}] {{\n^bb0(%a: index, "
                     f"%b: index, %c: index, %d: index):\n tensor.yield {with_} : f32\n}} : {old} to "
                     f"{self.type(*y.shape)}", y)  # fmt: skip

    def windows(self, k: int, stride: int, dilation: int = 1) -> Array:
        reach = dilation * (k - 1) + 1
        found = np.lib.stride_tricks.sliding_window_view(self.y, (reach, reach), (2, 3))
        return found[:, :, ::stride, ::stride, ::dilation, ::dilation]

    def over(self, op: str, w: str, shape: tuple[int, ...], y: Array, stride: int, dilation: int, start: str) -> None:
        image, result = self.type(), self.type(*y.shape)
        init = self.fill(start, *y.shape)
        self.put(f"linalg.{op} {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<{dilation}> : "
                 f"tensor<2xi64>}} ins({self.value}, {w} : {image}, {weights(*shape)}) outs({init} : {result}) -> "
                 f"{result}", y)  # fmt: skip

    def convolve(self, rows: int, k: int, stride: int = 1, dilation: int = 1) -> None:
        self.pad(dilation * (k // 2))
        w, f = self.constant(rows, self.y.shape[1], k, k)
        y = np.einsum("nchwij,ocij->nohw", self.windows(k, stride, dilation), f.astype(np.float64))
        self.over("conv_2d_nchw_fchw", w, f.shape, y, stride, dilation, "%zero")
        self.bias(rows)

    def depthwise(self, k: int, stride: int = 1) -> None:
        self.pad(k // 2)
        w, f = self.constant(self.y.shape[1], k, k)
        y = np.einsum("nchwij,cij->nchw", self.windows(k, stride), f.astype(np.float64))
        self.over("depthwise_conv_2d_nchw_chw", w, f.shape, y, stride, 1, "%zero")

    def grouped(self, groups: int, k: int) -> None:
        self.pad(k // 2)
        n, channels, h, w = self.y.shape
        f, values = self.constant(groups, channels // groups, channels // groups, k, k)
        windows = self.windows(k, 1).reshape(n, groups, channels // groups, h + 1 - k, w + 1 - k, k, k)
        y = np.einsum("ngchwij,gocij->ngohw", windows, values.astype(np.float64))
        parts, made = (n, groups, channels // groups, h, w), self.type(*y.shape)
        image, folds = self.type(*parts), "[[0], [1, 2], [3], [4]]"
        sizes = ", ".join([self.batch(), *map(str, parts[1:])])
        self.put(f"tensor.expand_shape {self.value} {folds} output_shape [{sizes}] : {self.type()} into {image}", y)
        init, stated = self.fill("%zero", *y.shape), "dense<1> : tensor<2xi64>"
        self.put(f"linalg.conv_2d_ngchw_gfchw {{strides = {stated}, dilations = {stated}}} ins({self.value}, {f} : "
                 f"{image}, {weights(*values.shape)}) outs({init} : {made}) -> {made}", y)  # fmt: skip
        y = y.reshape(n, channels, *y.shape[3:])
        self.put(f"tensor.collapse_shape {self.value} {folds} : {made} into {self.type(*y.shape)}", y)

    def pool(self, k: int, stride: int) -> None:
        self.pad(k // 2, "%low")
        w = self.name()
        self.lines.append(f"{w} = tensor.empty() : {weights(k, k)}")
        self.over("pooling_nchw_max", w, (k, k), self.windows(k, stride).max((4, 5)), stride, 1, "%low")

    def bias(self, rows: int) -> None:
        b, values = self.constant(rows)
        self.elementwise("arith.addf %a, %b : f32", [b], ["(n, c, h, w) -> (c)"],
                         self.y + values.astype(np.float64)[:, None, None])  # fmt: skip

    def relu(self) -> None:
        self.elementwise("arith.maximumf %a, %zero : f32", [], [], np.maximum(self.y, 0))

    def add(self, other: str, y: Array) -> None:
        self.elementwise("arith.addf %a, %b : f32", [other], ["(n, c, h, w) -> (n, c, h, w)"], self.y + y)

    def elementwise(self, code: str, others: list[str], maps: list[str], y: Array) -> None:
        own, type_ = "(n, c, h, w) -> (n, c, h, w)", self.type()
        empty = self.fill("%zero", *y.shape)
        ins = ", ".join([self.value, *others])
        types = ", ".join([type_, *(type_ if m == own else weights(y.shape[1]) for m in maps)])
        blocks = ", ".join(f"{n}: f32" for n in ["%a", *(["%b"] if others else []), "%o"])
        self.put(
            f"linalg.generic {{indexing_maps = [{', '.join(f'affine_map<{m}>' for m in [own, *maps, own])}], "
            f'iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins({ins} : {types}) '
            f"outs({empty} : {type_}) {{\n^bb0({blocks}):\n %r = {code}\n linalg.yield %r : f32\n}} -> {type_}",
            y,
        )

    def join(self, *others: tuple[str, Array]) -> None:
        """Concatenated with other tensors, channel by channel."""
        types = ", ".join([self.type(), *(self.type(*y.shape) for _, y in others)])
        y = np.concatenate([self.y, *(y for _, y in others)], 1)
        names = ", ".join([self.value, *(name for name, _ in others)])
        self.put(f"tensor.concat dim(1) {names} : ({types}) -> {self.type(*y.shape)}", y)

    def channels(self, first: int, count: int, stride: int = 1) -> None:
        y, (_, _, h, w) = self.y[:, first : first + count * stride : stride], self.y.shape
        self.put(f"tensor.extract_slice {self.value}[0, {first}, 0, 0] [{self.batch()}, {count}, {h}, {w}] "
                 f"[1, {stride}, 1, 1] : {self.type()} to {self.type(*y.shape)}", y)  # fmt: skip

    def enlarge(self) -> None:
        """Each pixel four times."""
        y = self.y.repeat(2, 2).repeat(2, 3)
        old, new, own = self.type(), self.type(*y.shape), "(n, c, h, w) -> (n, c, h, w)"
        empty = self.fill("%zero", *y.shape)
        indices = "\n".join(f" %i{d} = linalg.index {d} : index" for d in range(4))
        self.put(
            f"""linalg.generic {{indexing_maps = [affine_map<{own}>],
 iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} outs({empty} : {new}) {{\n^bb0(%o: f32):
{indices}
 %two = arith.constant 2 : index
 %h = arith.divui %i2, %two : index\n %w = arith.divui %i3, %two : index
 %r = tensor.extract {self.value}[%i0, %i1, %h, %w] : {old}\n linalg.yield %r : f32\n}} -> {new}""",
            y,
        )

    def text(self) -> str:
        """The program."""
        return "\n".join([
            *self.globals, f"func.func @f(%x: {self.type(*self.x.shape)}) -> {self.type()} {{", *self.lines,
            f"return {self.value} : {self.type()}", "}",
        ])  # fmt: skip

    def check(self, cpu: str = "native", workers: int = 2) -> str:
        """Compiles and runs it; what its dispatches are called."""
        program = pd.device(f"cpu?workers={workers}").load(
            pd.compile(self.text(), targets="cpu", cpu=cpu),
            parameters={"m": self.parameters} if self.parameters else None,
        )
        found = program.f(self.x)
        np.testing.assert_allclose(found, self.y, rtol=2e-4, atol=2e-4 * max(1.0, float(np.abs(self.y).max())))
        return self.dispatches()

    def dispatches(self, **options: Any) -> str:
        text = compile_to("dispatches", self.text(), **{"targets": "cpu", "cpu": "native"} | options)
        return "\n".join(line for line in text.splitlines() if "flow.dispatch @" in line)


def weights(*sizes: int) -> str:
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def network(*shape: int, seed: int = 0, any_batch: bool = False) -> Network:
    rng = np.random.default_rng(seed)
    return Network(rng.standard_normal(shape, dtype=np.float32), rng, any_batch)


def residual(n: Network, rows: int, stride: int) -> None:
    """A block of a ResNet: what it adds up is read twice."""
    skip, y = n.value, n.y
    n.convolve(rows, 3, stride)
    n.relu()
    n.convolve(rows, 3)
    main, total = n.value, n.y
    n.value, n.y = skip, y
    if stride > 1:
        n.convolve(rows, 1, stride)
    skip, y = n.value, n.y
    n.value, n.y = main, total
    n.add(skip, y)
    n.relu()


@pytest.mark.parametrize("any_batch", [False, True])
@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "x86-64-v4"]))
def test_a_network_is_transposed_at_its_ends_alone(cpu: str, any_batch: bool) -> None:
    n = network(1, 3, 30, 30, any_batch=any_batch)
    n.convolve(32, 7, 2)
    n.relu()
    n.pool(3, 2)
    residual(n, 32, 1)
    residual(n, 64, 2)
    n.convolve(40, 1)
    dispatches = [line.removesuffix("{%n}") for line in n.check(cpu).splitlines() if "@f_dispatch" in line]
    assert ["transpose" in line for line in dispatches] == [True, *[False] * (len(dispatches) - 2), True]
    assert all(line.endswith(("x32xf32>", "x64xf32>", "x40xf32>")) for line in dispatches[1:-1]), dispatches


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_filters_follow(stride: int) -> None:
    n = network(1, 32, 12, 12)
    n.convolve(64, 1)
    n.depthwise(3, stride)
    n.relu()
    n.convolve(32, 1)
    n.check()


def test_a_dynamic_batch_may_be_empty() -> None:
    """Windows at the edge read the nearest element that exists."""
    n = network(2, 32, 12, 12, any_batch=True)
    n.convolve(64, 1)
    n.depthwise(5)
    n.convolve(32, 1)
    n.check()
    program = pd.device("cpu?workers=2").load(
        pd.compile(n.text(), targets="cpu", cpu="native"), parameters={"m": n.parameters}
    )
    assert program.f(n.x[:0]).shape == (0, 32, 12, 12)
    np.testing.assert_array_equal(program.f(n.x[:1])[0], program.f(n.x)[0])


@pytest.mark.parametrize("any_batch", [False, True])
def test_few_places_and_a_large_filter_are_a_product_of_columns(any_batch: bool) -> None:
    n = network(2, 256, 7, 7, any_batch=any_batch)
    n.convolve(256, 3)
    n.relu()
    n.convolve(256, 3)
    dispatches = [line for line in n.check().splitlines() if "@f_dispatch" in line]
    assert sum("x2304xf32_addf" in line for line in dispatches) == 2, dispatches


def test_a_strided_window_of_a_residual_block_laid_out_as_columns() -> None:
    """What one rewritten convolution writes is the image of the next: a ResNet-18 could not be compiled."""
    n = network(1, 64, 56, 56)
    residual(n, 128, 2)
    residual(n, 128, 1)
    residual(n, 256, 2)
    n.check()


def test_a_unet_is_transposed_at_its_ends_alone() -> None:
    """Images that are enlarged and joined with earlier ones."""
    n = network(1, 16, 16, 16)
    n.convolve(32, 3)
    n.relu()
    early = n.value, n.y
    n.pool(3, 2)
    n.channels(4, 20)
    n.enlarge()
    n.convolve(48, 3)
    n.join(early)
    n.convolve(32, 3)
    dispatches = [line for line in n.check().splitlines() if "@f_dispatch" in line]
    assert ["transpose" in line for line in dispatches] == [True, *[False] * (len(dispatches) - 2), True], dispatches


def test_what_is_joined_with_an_argument_keeps_its_order() -> None:
    """An elementwise sum of two readers' tensor follows only where all that it reads does."""
    n = network(1, 32, 10, 10)
    n.convolve(32, 3)
    early = n.value, n.y
    n.join(("%x", n.x.astype(np.float64)))
    n.convolve(32, 3)
    n.add(*early)
    n.check()


def test_an_elementwise_operation_that_reads_an_image_twice() -> None:
    """The first pixel of each channel is subtracted: only the second operand is read in the order of the result."""
    n = network(1, 32, 10, 10)
    n.convolve(32, 3)
    type_, init = n.type(), n.fill("%zero", *n.y.shape)
    maps = [f"affine_map<(n, c, h, w) -> ({indices})>" for indices in ("n, c, 0, 0", "n, c, h, w", "n, c, h, w")]
    n.put(
        f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = "
        f'["parallel", "parallel", "parallel", "parallel"]}} ins({n.value}, {n.value} : {type_}, {type_}) '
        f"outs({init} : {type_}) {{\n^bb0(%a: f32, %b: f32, %o: f32):\n %r = arith.subf %b, %a : f32\n"
        f" linalg.yield %r : f32\n}} -> {type_}",
        n.y - n.y[..., :1, :1],
    )
    n.convolve(32, 3)
    n.check()


def test_a_reduction_that_reads_a_tensor_twice() -> None:
    """Only the second operand has an index that is not a loop alone."""
    function = (
        pd.device("cpu")
        .load(
            pd.compile("""
func.func @f(%x: tensor<17x17xf32>) -> tensor<17xf32> {
  %zero = arith.constant 0.0 : f32
  %init = tensor.splat %zero : tensor<17xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, 1)>,
      affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x, %x : tensor<17x17xf32>, tensor<17x17xf32>) outs(%init : tensor<17xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %sum = arith.addf %a, %b : f32
    %largest = arith.maximumf %s, %sum : f32
    linalg.yield %largest : f32
  } -> tensor<17xf32>
  return %y : tensor<17xf32>
}
""")
        )
        .f
    )
    x = np.random.default_rng(0).random((17, 17), np.float32)
    np.testing.assert_array_equal(function(x), (x + x[:, 1]).max(0))


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_random_networks(data: st.DataObject) -> None:
    draw = data.draw
    side = st.sampled_from([5, 7, 9, 14, 17])
    n = network(
        draw(st.integers(1, 2)), draw(st.sampled_from([3, 16, 32, 48])), draw(side), draw(side),
        any_batch=draw(st.booleans()),
    )  # fmt: skip
    seen = []
    for _ in range(draw(st.integers(1, 5))):
        layer = draw(st.sampled_from([
            "convolve", "convolve", "one", "depthwise", "pool", "relu", "residual", "join", "channels", "enlarge",
        ]))  # fmt: skip
        seen.append((n.value, n.y))
        stride = draw(st.integers(1, 2))
        if layer == "convolve":
            n.convolve(draw(st.sampled_from([16, 20, 32, 64])), 3, stride, draw(st.integers(1, 2)))
        elif layer == "one":
            n.convolve(draw(st.sampled_from([16, 32, 70])), 1, stride)
        elif layer == "residual":
            residual(n, n.y.shape[1], 1)
        elif layer == "relu":
            n.relu()
        elif layer == "join":
            n.join(*[each for each in seen if each[1].shape[2:] == n.y.shape[2:]][:2])
        elif layer == "channels":
            first = draw(st.integers(0, n.y.shape[1] - 1))
            stride = draw(st.integers(1, 2))
            n.channels(first, -(-(n.y.shape[1] - first) // stride), stride)
        elif layer == "enlarge" and n.y.shape[2] < 20:
            n.enlarge()
        elif layer in ("depthwise", "pool"):
            getattr(n, layer)(3, stride)
    n.check()


def single(rows: int, channels: int, k: int, side: int = 14) -> Network:
    n = network(1, channels, side, side)
    n.convolve(rows, k)
    return n


def test_where_it_pays() -> None:
    last = "x32xf32>, tensor<3x3x32x32xf32>"
    assert last in single(32, 32, 3).dispatches(), "windows, and filters that are constants"
    assert last not in single(32, 32, 3).dispatches(targets=["cpu", "sm_80"]), "for CPUs alone"
    assert "196" in single(32, 32, 1).dispatches() or "14x14x32" in single(32, 32, 1).dispatches()
    assert "30x30x32xf32>)" not in single(32, 32, 1, 30).dispatches(), "many places fill the columns"
    assert "16x16x16xf32>)" not in single(16, 16, 3).dispatches(), "few channels: transposing costs more"


def test_networks_with_groups_stay_as_they_are() -> None:
    n = network(1, 32, 14, 14)
    n.convolve(32, 3)
    n.grouped(8, 3)
    n.convolve(32, 3)
    assert "_transpose" not in "".join(line for line in n.check().splitlines() if "@f_dispatch" in line)


def test_filters_that_are_arguments_stay_as_they_are() -> None:
    n = single(32, 32, 3)
    text = n.text().replace("(%x: tensor<1x32x14x14xf32>)", "(%x: tensor<1x32x14x14xf32>, %w: tensor<32x32x3x3xf32>)")
    loaded = next(line for line in n.lines if "@w0" in line)
    text = text.replace(loaded, "").replace(loaded.split(" ")[0] + " ", "%w ").replace(n.globals[0], "")
    found = compile_to("dispatches", text, targets="cpu", cpu="native")
    assert "16x16x32" not in found


PADDED_BEHIND = """
func.func @f(%x: tensor<16x56x56xf32>) -> tensor<57x57x16xf32> {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 0] high[0, 1, 1] {
    ^bb0(%channel: index, %row: index, %column: index):
      tensor.yield %zero : f32
  } : tensor<16x56x56xf32> to tensor<16x57x57xf32>
  %empty = tensor.empty() : tensor<57x57x16xf32>
  %last = linalg.transpose ins(%padded : tensor<16x57x57xf32>) outs(%empty : tensor<57x57x16xf32>)
      permutation = [1, 2, 0]
  return %last : tensor<57x57x16xf32>
}
"""


def test_padded_images_are_transposed_without_divisions_of_elements() -> None:
    """Height and width are two dimensions of a block: rows of the result are longer than those of the image."""
    text = compile_to("executables", PADDED_BEHIND, targets="x86_64", cpu="x86-64-v4")
    _, *loops = text.split("scf.parallel")
    bodies = [loop.split("scf.reduce")[0] for loop in loops]
    assert any("memref.load" in body for body in bodies)
    assert not any("arith.divui" in body or "arith.remui" in body for body in bodies)


UNITS = """
func.func @f(%s: tensor<f32>, %u: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<f32>) {
  %expanded = tensor.expand_shape %s [] output_shape [1, 1] : tensor<f32> into tensor<1x1xf32>
  %replaced = math.exp %u : tensor<1x1xf32>
  %collapsed = tensor.collapse_shape %replaced [] : tensor<1x1xf32> into tensor<f32>
  return %expanded, %collapsed : tensor<1x1xf32>, tensor<f32>
}
"""


def test_transpositions_of_single_elements() -> None:
    """Tensors of rank 0 have no dimensions to group."""
    module = parse(UNITS)
    ops = {op.name: op for op in module.walk()}
    expand, last = ops["tensor.expand_shape"], ops["func.return"]
    transposed_expansion = in_order(last, expand.results[0], [1, 0])
    assert str(transposed_expansion.owner.properties["reassociation"]) == "[]"
    exponential = ops["math.exp"]
    replace(exponential, transposed(exponential.operands[0], [1, 0], exponential))
    collapse = next(op for op in module.walk() if op.name == "tensor.collapse_shape")
    assert str(collapse.properties["reassociation"]) == "[]"


INDICES = """
func.func @f() -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<6x4xi8>
  %indices = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<6x4xi8>) {
    ^bb0(%o: i8):
      %i = linalg.index 0 : index
      %n = arith.index_cast %i : index to i8
      linalg.yield %n : i8
  } -> tensor<6x4xi8>
  %f = tensor.empty() : tensor<6x4xf32>
  %floats = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%indices : tensor<6x4xi8>) outs(%f : tensor<6x4xf32>) {
    ^bb0(%n: i8, %o: f32):
      %x = arith.sitofp %n : i8 to f32
      linalg.yield %x : f32
  } -> tensor<6x4xf32>
  %t = tensor.empty() : tensor<4x6xf32>
  %transposed = linalg.transpose ins(%floats : tensor<6x4xf32>) outs(%t : tensor<4x6xf32>) permutation = [1, 0]
  %slice = tensor.extract_slice %transposed[0, 0] [3, 5] [1, 1] : tensor<4x6xf32> to tensor<3x5xf32>
  return %slice : tensor<3x5xf32>
}
"""


def test_widened_bytes_that_are_computed_from_indices_are_transposed() -> None:
    function = pd.device("cpu").load(pd.compile(INDICES, targets="cpu")).f
    np.testing.assert_array_equal(function(), np.tile(np.arange(5, dtype=np.float32), (3, 1)))


def test_slices_that_are_copied_transposed() -> None:
    """A transposed copy of one slice of a tensor does not serve readers of another slice."""
    rng = np.random.default_rng(4)
    x, z = (rng.random(shape, dtype=np.float32) for shape in ((1, 32, 16, 16), (3, 64, 64)))
    w = rng.random((32, 32, 3, 3), dtype=np.float32)
    image, filters, result = "tensor<1x32x16x16xf32>", "tensor<32x32x3x3xf32>", "tensor<1x32x14x14xf32>"

    def read(index: int, operation: str) -> str:
        """An elementwise operation on the transposed slice with this index."""
        return f"""linalg.generic {{
            indexing_maps = [affine_map<(d0, d1) -> ({index}, d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>],
            iterator_types = ["parallel", "parallel"]
        }} ins(%z : tensor<3x64x64xf32>) outs(%e2 : tensor<64x64xf32>) {{
        ^bb0(%a: f32, %b: f32):
          {operation}
        }} -> tensor<64x64xf32>"""

    program = pd.compile(
        f"""
        func.func @f(%x: {image}, %z: tensor<3x64x64xf32>) -> ({result}, tensor<64x64xf32>, tensor<64x64xf32>) {{
          %w = arith.constant dense<"0x{w.tobytes().hex().upper()}"> : {filters}
          %zero = arith.constant 0.0 : f32
          %e = tensor.empty() : {result}
          %i = linalg.fill ins(%zero : f32) outs(%e : {result}) -> {result}
          %r = linalg.conv_2d_nchw_fchw ins(%x, %w : {image}, {filters}) outs(%i : {result}) -> {result}
          %e2 = tensor.empty() : tensor<64x64xf32>
          %c = {read(1, "linalg.yield %a : f32")}
          %y = {read(2, "%s = arith.negf %a : f32" + chr(10) + "linalg.yield %s : f32")}
          return %r, %c, %y : {result}, tensor<64x64xf32>, tensor<64x64xf32>
        }}""",
        targets="cpu",
    )
    _, copy, negated = pd.device("cpu").load(program).f(x, z)
    np.testing.assert_array_equal(copy, z[1].T)
    np.testing.assert_array_equal(negated, -z[2].T)
