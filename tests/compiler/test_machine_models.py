"""Machine models: the table, this machine's caches, and what is packed on which."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to
from pydispatch.compiler.kernel_ir.kernel import ARCHITECTURES, Target
from pydispatch.compiler.kernels.matmul.cpu.default_schedule import default_schedule
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem, prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule, refusal
from pydispatch.compiler.kernels.matmul.cpu.streaming import streaming_prefetch_distance
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.target import cpu as cpus
from pydispatch.compiler.target.cpu import Machine, cpu_names, machine_of
from pydispatch.compiler.target.machine_model import LEVELS, MODELS, Cache, MachineModel
from pydispatch.compiler.target.system_caches import of_linux

NAMES = [(arch, name) for arch in ARCHITECTURES.values() for name in ("generic", *cpu_names(arch))]
IDS = ["-".join(pair) for pair in NAMES]


def machine(arch: str, cpu: str) -> Machine:
    (suffix,) = (s for s, a in ARCHITECTURES.items() if a == arch)
    return machine_of(Target("llvm-cpu", f"embedded-elf-{suffix}", cpu))


def level(cpu: str, arch: str = "x86_64") -> Level:
    return level_of(machine(arch, cpu))


def product(m: int, k: int, n: int, size: int = 4) -> Problem:
    """A times B, both arguments, in rows."""
    a, b = Operand(True, k * size, True, False), Operand(True, n * size, False, True)
    return Problem(size, m, n, k, m, m, 1, 1, a, b, 0, 1)


# The table


@pytest.mark.parametrize(("arch", "cpu"), NAMES, ids=IDS)
def test_every_cpu_has_a_model(arch: str, cpu: str) -> None:
    model = machine(arch, cpu).model
    levels = {"generic", "generic-rv64", *LEVELS}
    assert model.name == (cpu if cpu in MODELS else model.name) and (cpu in MODELS) != (cpu in levels)
    for cache in filter(None, (model.l1, model.l2, model.l3)):
        assert cache.bytes % cache.ways == 0 and cache.way_bytes % model.line == 0
        assert cache.bytes_per_core >= model.l1.bytes


@pytest.mark.parametrize(("arch", "cpu"), [pair for pair in NAMES if pair[1] in MODELS])
def test_register_blocks_hide_the_latency(arch: str, cpu: str) -> None:
    found = level(cpu, arch)
    parts = -(-found.vector // found.model.datapath)
    assert found.block_rows * found.block_vectors * parts >= found.model.fmas * found.model.latency


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_is_as_bad_as_the_worst(name: str) -> None:
    worst = machine("x86_64", name).model if name.startswith("x86") else machine(name, "generic").model
    for each in (MODELS[n] for n in LEVELS[name]):
        for ours, theirs in ((worst.l1, each.l1), (worst.l2, each.l2)):
            for stride in (64, 1000, 2048, 4096, 65536):
                assert ours.reachable(128, stride) <= theirs.reachable(128, stride)
        for field in ("tlb1", "tlb2", "loads", "bandwidth", "prefetch_stride", "page"):
            assert getattr(worst, field) <= getattr(each, field), field
        assert worst.l3 is None or each.l3 is not None


@pytest.mark.parametrize(
    ("stride", "left"),
    [(2048, 128), (2112, 1024), (2304, 1024), (2560, 512), (3072, 256), (4096, 64), (8192, 32)],
)
def test_rows_reach_part_of_a_cache(stride: int, left: int) -> None:
    """KiB of the second-level cache of a Cascade Lake that rows of 256 bytes reached."""
    assert MODELS["cascadelake"].l2.reachable(256, stride) == left << 10


# This machine


def folder_of_caches(root: Path, caches: list[dict[str, str]]) -> Path:
    (root / "topology").mkdir(parents=True)
    (root / "topology" / "thread_siblings_list").write_text("0,4\n")
    for number, files in enumerate(caches):
        index = root / "cache" / f"index{number}"
        index.mkdir(parents=True)
        for name, text in files.items():
            (index / name).write_text(f"{text}\n")
    return root / "cache"


def test_caches_of_linux(tmp_path: Path) -> None:
    first = {"level": "1", "type": "Data", "size": "48K", "ways_of_associativity": "12", "shared_cpu_list": "0,4",
             "coherency_line_size": "64"}  # fmt: skip
    code = {**first, "type": "Instruction", "size": "7K"}
    second = {**first, "level": "2", "type": "Unified", "size": "2M", "ways_of_associativity": ""}
    third = {**second, "level": "3", "size": "30720K", "shared_cpu_list": "0-7"}
    found = of_linux(folder_of_caches(tmp_path, [first, code, second, third]))
    assert found == ({1: (48 << 10, 12, 1), 2: (2 << 20, 0, 1), 3: (30 << 20, 0, 4)}, 64)


@pytest.mark.parametrize("text", ["", "x", "-1K", "0K", "99999999999999999999", "1.5M", "\0"])
def test_caches_that_make_no_sense(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydispatch.compiler.target import system_caches

    broken = dict.fromkeys(("level", "size", "ways_of_associativity", "shared_cpu_list", "coherency_line_size"), text)
    folder = folder_of_caches(tmp_path, [{**broken, "type": "Data"}, {**broken, "type": "Data", "level": "2"}])
    monkeypatch.setattr(system_caches, "CACHES", folder)
    monkeypatch.setattr(system_caches, "caches_of_this_machine", system_caches.caches_of_this_machine.__wrapped__)
    monkeypatch.setattr(system_caches.sys, "platform", "linux")
    model = MODELS["znver5"]
    assert replace(system_caches.with_caches_of_this_machine(model), page=model.page) == model


def test_what_is_fetched_ahead_and_how_rows_are_streamed() -> None:
    """Where CPUs are slow beyond the second-level cache blocks fetch ahead; rows that lie further apart than is
    prefetched are read by whole pages, or whole where other dimensions make several workgroups."""
    ahead = {
        cpu: prefetch_distance(level(cpu), 14, 128) for cpu in ("cascadelake", "graniterapids", "znver4", "znver5")
    }
    assert ahead == {"cascadelake": 4096, "graniterapids": 4096, "znver4": 0, "znver5": 0}
    assert [prefetch_distance(level(cpu), 1, 64) for cpu in ("cascadelake", "znver4")] == [4096, 0]
    assert not any(
        prefetch_distance(level(cpu, "aarch64"), 12, 32) for cpu in ("neoverse-n1", "neoverse-v2", "apple-m1")
    )
    intel = level("sapphirerapids")
    schedules = [default_schedule(intel, product(1, k, n)) for k, n in ((768, 3072), (4096, 4096), (4096, 11008))]
    assert [s.nt for s in schedules] == [1024, 1024, 1408]
    parts = replace(product(1, 512, 11008), outer=8)
    assert default_schedule(intel, parts).nt == 11008
    streamed = [default_schedule(intel, product(m, 4096, 4096)) for m in (3, 8, 16, 64, 65)]
    assert [(s.mr, s.nr, s.nt, s.kc) for s in streamed[:-1]] == [
        (3, 32, 1024, 8), (4, 64, 1024, 8), (8, 32, 512, 32), (8, 32, 1024, 32)]  # fmt: skip
    assert not any(s.pack_a or s.pack_b for s in streamed[:-1]) and streamed[-1].pack_b
    assert not default_schedule(level("znver4"), product(128, 4096, 4096)).pack_b, "a vector takes two cycles there"
    zen_4 = level("znver4")
    in_l3 = [default_schedule(zen_4, product(m, 384, n)) for m, n in ((4, 1536), (8, 1536), (16, 544))]
    assert [(s.nr, s.nt, s.kc) for s in in_l3] == [(32, 768, 8), (32, 768, 32), (32, 160, 32)]
    whole_rows = [default_schedule(zen_4, product(1, 700, n)) for n in (7, 200, 256, 257)]
    assert [(s.nr, s.kc) for s in whole_rows] == [(7, 4), (200, 4), (256, 700), (128, 4)]
    narrow = replace(product(5, 4096, 7), b=Operand(True, 4096, False, True))
    assert default_schedule(intel, narrow).nr == 7, "columns of a slice of B"
    assert default_schedule(level("generic", "riscv64"), product(8, 4096, 4096)).mr == 2
    assert default_schedule(level("znver5"), product(1, 1024, 1024)).nr == 256


def test_streamed_rows_are_prefetched_where_the_cpu_is_late() -> None:
    """One or two rows of A leave no time for prefetches unless B is in main memory. A B in the L2 cache needs none."""
    zen_4 = level("znver4")
    products = {(m, n): product(m, n, n) for m, n in ((1, 4096), (1, 1024), (4, 1024), (16, 512), (16, 256), (64, 512))}
    chunks = {key: streaming_prefetch_distance(zen_4, p, steps=8) // (8 * 4) for key, p in products.items()}
    assert chunks == {(1, 4096): 4096, (1, 1024): 0, (4, 1024): 1024, (16, 512): 512, (16, 256): 0, (64, 512): 0}


@pytest.mark.parametrize(
    ("cpu", "chunk_rows"), [("sapphirerapids", 32), ("x86-64-v3", 32), ("znver4", 0), ("znver5", 0), ("haswell", 0)]
)
def test_near_rows_are_streamed_where_the_cpu_is_late(cpu: str, chunk_rows: int) -> None:
    """Blocks of CPUs with little bandwidth beyond the L2 cache wait for a B that another weight has evicted."""
    near = product(16, 248, 256)
    schedule = default_schedule(level(cpu), near)
    assert schedule.kc == (chunk_rows or near.k)
    assert streaming_prefetch_distance(level(cpu), near, steps=32) == chunk_rows * near.b.row_stride_bytes
    for other in (product(16, 80, 64), product(64, 248, 256), replace(near, b_uses=2)):  # in L1; more rows; shared B
        assert streaming_prefetch_distance(level(cpu), other, steps=32) == 0


def test_narrow_tiles_read_rows_in_one_cache_set_in_place() -> None:
    """Packing A for few columns takes longer, and tiles with all rows pack each column of B once."""
    intel = level("sapphirerapids")
    # 13 rows of 4 or 12 KiB fall into one set of 12 ways.
    products = [product(128, 3072, 768), product(1024, 3072, 768), product(1024, 1024, 1024)]
    schedules = [default_schedule(intel, p) for p in products]
    assert [(s.mt, s.nt, s.pack_a, s.pack_b) for s in schedules] == [
        (130, 64, False, True), (208, 64, False, True), (208, 256, True, True)]  # fmt: skip
    computed = replace(products[0], a=replace(products[0].a, is_readable_in_place=False))
    assert default_schedule(intel, computed).pack_a


@pytest.mark.parametrize("shape", [(3, 129, 101), (16, 248, 256), (31, 200, 130), (130, 3072, 200)], ids=str)
def test_products_of_skinny_matrices_and_narrow_tiles(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b, c = f"tensor<{m}x{k}xf32>", f"tensor<{k}x{n}xf32>", f"tensor<{m}x{n}xf32>"
    text = f"""
func.func @f(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant dense<0.0> : {c}
  %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%zero : {c}) -> {c}
  return %r : {c}
}}
"""
    rng = np.random.default_rng(m)
    x, y = (rng.integers(-8, 8, size).astype(np.float32) for size in ((m, k), (k, n)))
    for cpu in ("native", "x86-64-v3"):
        result = pd.device("cpu?workers=2").load(pd.compile(text, targets="cpu", cpu=cpu)).f(x, y)
        np.testing.assert_array_equal(result, x @ y)


@pytest.mark.parametrize(
    ("keys", "heads", "width", "queries_per_head", "is_prefetched"),
    [(512, 12, 64, 1, False), (1024, 32, 128, 1, True), (1024, 32, 128, 4, False)],
)
def test_heads_that_share_rows_are_counted_once(
    keys: int, heads: int, width: int, queries_per_head: int, is_prefetched: bool
) -> None:
    """The values of one position are a row of all heads. Those of 16 MiB fill half of the third-level cache."""
    row = Operand(True, heads // queries_per_head * width * 4, False, True)
    values = replace(product(1, keys, width), outer=heads, b_uses=queries_per_head, b=row)
    distance = streaming_prefetch_distance(level("znver4"), values, steps=8)
    assert distance == (8 * row.row_stride_bytes if is_prefetched else 0)


def test_rows_in_one_cache_set_are_read_in_place_by_low_blocks() -> None:
    """Each element of A is read once if a block has all columns, so that a packed copy would not pay."""
    zen4 = level("znver4")

    def schedule_of(columns: int, row_stride_bytes: int) -> Schedule:
        a = Operand(True, row_stride_bytes, True, False)
        return default_schedule(zen4, replace(product(64, 1024, columns), a=a, outer=16))

    conflicting = schedule_of(columns=64, row_stride_bytes=65536)
    assert (conflicting.mr, conflicting.nr, conflicting.pack_a) == (5, 64, False)
    assert conflicting.mr * conflicting.nr * 4 // zen4.vector * 2 >= zen4.model.fmas * zen4.model.latency
    assert schedule_of(columns=48, row_stride_bytes=65536).nr == 48
    assert schedule_of(columns=64, row_stride_bytes=65600).mr == 13, "rows in many sets"
    assert schedule_of(columns=256, row_stride_bytes=65536).pack_a, "several blocks of columns use a packed element"


def test_matrix_registers_hold_blocks() -> None:
    wide = replace(product(100, 3072, 768), group=4, matrix_steps=16)
    schedule = default_schedule(level("sapphirerapids"), wide)
    assert (schedule.mr, schedule.nr, schedule.kc % 64) == (32, 32, 0)
    assert refusal(level("sapphirerapids"), wide, schedule) is None
    taller = refusal(level("sapphirerapids"), wide, replace(schedule, mr=48, mt=96))
    assert taller == "matrix registers hold blocks of 32x32, not of 48x32"


def test_only_native_depends_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Cache(4096, 1)

    def other(model: MachineModel) -> MachineModel:
        return replace(model, name="other", l1=tiny, l2=tiny, l3=None)

    before = compile_to("executables", PROGRAM, targets="x86_64", cpu="cascadelake")
    monkeypatch.setattr(cpus, "with_caches_of_this_machine", other)
    assert compile_to("executables", PROGRAM, targets="x86_64", cpu="cascadelake") == before
    (executable,) = pd.compile(PROGRAM, targets="cpu", cpu=["native", "generic"]).executables
    native, generic = (str(variant.extra["machine_model"]) for variant in executable.variants)
    assert native.startswith("other: L1d 4 KiB 1-way, L2 4 KiB 1-way, no L3") and "other" not in generic


PROGRAM = """
func.func @f(%a: tensor<512x784xf32>, %b: tensor<784x512xf32>, %c: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<512x784xf32>, tensor<784x512xf32>)
      outs(%c : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %r : tensor<512x512xf32>
}
"""

# What is chosen

SLOW = ["generic", "x86-64-v3", "x86-64-v4", "haswell", "skylake-avx512", "cascadelake", "icelake-server", "znver2"]


@pytest.mark.parametrize("cpu", SLOW)
def test_rows_that_evict_each_other_are_packed(cpu: str) -> None:
    assert default_schedule(level(cpu), product(512, 784, 512)).pack_b
    assert default_schedule(level(cpu), product(1024, 512, 512)).pack_b
    assert default_schedule(level(cpu), product(512, 784, 500)).pack_b, "more pages than the first TLB has"


@pytest.mark.parametrize("cpu", [*SLOW, "znver5"])
def test_one_pass_is_read_in_place(cpu: str) -> None:
    for m in (1, 4):
        assert not default_schedule(level(cpu), product(m, 1024, 1024)).pack_b


def test_small_operands_are_read_in_place() -> None:
    assert not default_schedule(level("cascadelake"), product(512, 32, 32)).pack_b


def test_zen_5_reads_in_place_what_was_faster_there() -> None:
    zen = level("znver5")
    in_place = product(512, 784, 512), product(1024, 512, 512), product(256, 256, 256), product(42, 784, 1024)
    assert not any(default_schedule(zen, p).pack_b for p in in_place)
    packed = product(1024, 1024, 1024), product(128, 768, 3072)
    assert all(default_schedule(zen, p).pack_b for p in packed)


def test_a_transposed_matrix_is_read_along_k_for_few_rows_or_columns() -> None:
    def turned(m: int, k: int, n: int) -> Problem:
        operand = Operand(True, k * 4, True, False)
        return replace(product(m, k, n), a=operand, b=operand)

    for m, n, packed in ((4, 1000, False), (136, 8, False), (136, 64, True)):
        schedule = default_schedule(level("znver5"), turned(m, 1670, n))
        assert schedule.pack_b == packed and schedule.mt <= 136
    assert default_schedule(level("znver2"), turned(136, 1670, 8)).pack_b, "8 columns are a vector"


def test_fewer_passes_where_rows_come_back_in_time() -> None:
    """49 rows pass in 4 blocks of 13 rather than 5 of 10, so that B need not be packed; a B that stays is no reason."""
    zen, large = level("znver5"), product(49, 2048, 512)
    assert (default_schedule(zen, large).mr, default_schedule(zen, large).pack_b) == (13, False)
    assert default_schedule(level("cascadelake"), replace(large, m=130, min_rows=130, max_rows=130)).pack_b
    assert default_schedule(zen, product(50, 256, 256)).mr == 10


@pytest.mark.parametrize(("arch", "cpu"), NAMES, ids=IDS)
def test_defaults_are_legal_and_fit_the_caches(arch: str, cpu: str) -> None:
    found = level(cpu, arch)
    for m, k, n in ((1, 1024, 1024), (3, 33, 17), (7, 512, 512), (64, 3000, 2048), (512, 784, 512), (1024, 4096, 333)):
        for size in (4, 8):
            problem = product(m, k, n, size)
            schedule = default_schedule(found, problem)
            assert refusal(found, problem, schedule) is None, schedule
            packed = size * schedule.kc * (schedule.pack_a * schedule.mt + schedule.pack_b * schedule.nt)
            least = 64 * size * (schedule.mt + schedule.nt)
            assert packed <= max(2 * found.model.l2.bytes_per_core, least), schedule


def test_a_schedule_has_all_choices() -> None:
    assert [f.name for f in fields(Schedule)] == ["mr", "nr", "mt", "nt", "kc", "pack_a", "pack_b", "batch"]


def test_tiles_of_few_rows_share_packed_columns() -> None:
    """Where B is packed, stays in the second-level cache with all steps of K, and is the same for several tiles."""
    b = Operand(False, 0, False, True)
    window = replace(product(14, 256, 256), b=b, reductions=9, outer=14, b_uses=14)
    batches = {cpu: default_schedule(level(cpu), window).batch for cpu in ("x86-64-v4", "cascadelake", "haswell")}
    assert batches == {"x86-64-v4": 14, "cascadelake": 14, "haswell": 14}
    for other in ({"b_uses": 1}, {"k": 5120}, {"m": 3000}):
        assert default_schedule(level("x86-64-v4"), replace(window, **other)).batch == 1


def test_few_columns_that_are_packed_have_short_vectors() -> None:
    packed = Operand(False, 0, False, True)
    blocks = {n: default_schedule(level("znver4"), replace(product(28, 36, n), b=packed)).nr for n in (3, 4, 7, 8, 9)}
    assert blocks == {3: 4, 4: 4, 7: 8, 8: 8, 9: 16}


@pytest.mark.parametrize(
    ("cpu", "columns", "width"),
    [("znver4", 144, 48), ("znver4", 48, 48), ("znver4", 96, 32), ("znver4", 240, 32), ("haswell", 24, 16)],
)
def test_columns_that_fill_three_vectors_are_computed_once(cpu: str, columns: int, width: int) -> None:
    """Three vectors where two would compute more than a twelfth of the columns twice, and registers hold eight rows."""
    assert default_schedule(level(cpu), product(3136, 24, columns)).nr == width


@pytest.mark.parametrize(
    ("cpu", "rows", "columns", "width"),
    [("znver4", 32, 512, 48), ("znver4", 4, 512, 96), ("znver4", 32, 160, 32), ("haswell", 32, 512, 16)],
)
def test_blocks_that_widen_have_three_vectors(cpu: str, rows: int, columns: int, width: int) -> None:
    """Not where rows are few, where three vectors would compute many columns twice, or without 32 registers."""
    halves = Operand(True, columns * 2, False, True, element_bytes=2)
    assert default_schedule(level(cpu), replace(product(rows, 784, columns), b=halves)).nr == width


def test_blocks_of_three_vectors_have_the_results_of_numpy() -> None:
    text = """
func.func @f(%a: tensor<29x17xf32>, %b: tensor<17x48xf32>, %c: tensor<29x48xf32>) -> tensor<29x48xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<29x17xf32>, tensor<17x48xf32>)
      outs(%c : tensor<29x48xf32>) -> tensor<29x48xf32>
  return %r : tensor<29x48xf32>
}
"""
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(shape, dtype=np.float32) for shape in ((29, 17), (17, 48), (29, 48)))
    product_of_device = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu="native")).f
    np.testing.assert_allclose(product_of_device(a, b, c), c + a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def test_filters_that_leave_the_cache_between_rows_are_packed_once() -> None:
    """A filter of 3x3x256x256 exceeds half of the second-level cache; one of 3x3x128x128 does not. A CPU that brings it
    in time reads it in place."""

    def convolution(size: int, channels: int) -> Problem:
        """The rows of an image, which are computed, times a filter."""
        rows = replace(product(size, channels, channels), outer=size, reductions=9, b_uses=size)
        return replace(rows, a=replace(rows.a, is_readable_in_place=False))

    found = default_schedule(level("sapphirerapids"), convolution(14, 256))
    assert found.pack_b and found.batch == 14 and found.kc == 256
    assert not default_schedule(level("sapphirerapids"), convolution(28, 128)).pack_b
    assert not any(default_schedule(level(cpu), convolution(14, 256)).pack_b for cpu in ("znver4", "znver5"))
