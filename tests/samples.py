"""Chooses the cases of large tables, and the number of examples of properties, that a run of whole folders has.

A run of named files or tests has every case, and as many examples as their settings say.
PYDISPATCH_TEST_SEED=N chooses the cases and the examples. By default it is the number of the day, so that runs of one
day agree and many days have every case; a run prints it first.
PYDISPATCH_TEST_THOROUGH=1, which `make test-thorough` sets, runs every case, with ten times as many examples.
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SEED = int(os.environ.setdefault("PYDISPATCH_TEST_SEED", str(datetime.date.today().toordinal())))
IS_THOROUGH = os.environ.get("PYDISPATCH_TEST_THOROUGH") == "1"
FACTOR = 10.0 if IS_THOROUGH else 0.2
"""Examples of a property, by the number that its settings say."""
FIXED_FACTOR = max(FACTOR, 0.4)
"""As FACTOR, for properties with the same examples in every run: no other run has those that one leaves out."""
FEWEST = 5
"""A property with no more examples than this keeps all of them."""
TABLES = {
    "compiler/test_bf16_products.py": 3,
    "compiler/test_boundaries.py": 2,
    "compiler/test_channels_last.py": 2,
    "compiler/test_contract.py": 3,
    "compiler/test_contract_bytes.py": 3,
    "compiler/test_contract_converted.py": 3,
    "compiler/test_contract_fused.py": 2,
    "compiler/test_contract_halves.py": 3,
    "compiler/test_contract_rows.py": 3,
    "compiler/test_contract_schedule.py": 2,
    "compiler/test_contract_turned.py": 3,
    "compiler/test_contract_wide.py": 3,
    "compiler/test_contract_windows.py": 2,
    "compiler/test_folded_constants.py": 2,
    "compiler/test_machine_models.py": 2,
    "compiler/test_quantized.py": 2,
    "compiler/test_split.py": 2,
    "compiler/test_subnormal_memory.py": 4,
    "conformance/kernels/test_arith.py": 2,
    "conformance/kernels/test_math.py": 3,
    "conformance/kernels/test_points.py": 4,
    "conformance/kernels/test_reductions.py": 3,
    "conformance/kernels/test_small.py": 4,
    "conformance/test_checks.py": 4,
    "conformance/test_models.py": 4,
    "conformance/test_products.py": 4,
    "conformance/test_random_programs.py": 4,
    "conformance/test_tensor_programs.py": 4,
    "cuda/test_cuda_contract_values.py": 3,
    "cuda/test_cuda_generated_programs.py": 2,
    "cuda/test_cuda_target_functions.py": 2,
    "cuda/test_cuda_target_regions.py": 2,
    "devlib/test_accuracy.py": 2,
    "devlib/test_builtins.py": 2,
    "e2e/test_contract_cross.py": 3,
    "e2e/test_derived_constants.py": 2,
    "e2e/test_emulated_models.py": 2,
    "e2e/test_packed_constants.py": 3,
    "e2e/test_programs.py": 4,
    "e2e/test_sums.py": 3,
    "e2e/test_vector_lengths.py": 2,
    "emit/test_contract_op.py": 3,
    "emit/test_tile_registers.py": 3,
    "emit/test_transpose_op.py": 3,
    "frontends/generated/test_random_graphs.py": 2,
    "frontends/onnx/test_few_bits.py": 2,
    "frontends/onnx/test_onnx_models.py": 3,
    "frontends/ops/test_fourier.py": 3,
    "frontends/ops/test_linear.py": 3,
    "frontends/ops/test_tensors.py": 2,
    "frontends/stablehlo/test_elements.py": 2,
    "frontends/stablehlo/test_every_operation.py": 3,
    "frontends/stablehlo/test_jax.py": 3,
    "frontends/torch/test_pt2_models.py": 2,
    "frontends/tosa/test_tosa_elementwise.py": 2,
    "frontends/tosa/test_tosa_tensors.py": 2,
    "ir/test_mutations.py": 2,
    "ir/test_peer.py": 2,
    "ops/test_attention.py": 2,
    "ops/test_contractions.py": 2,
    "ops/test_convolutions.py": 2,
    "ops/test_generics.py": 2,
    "ops/test_linalg_ext.py": 2,
    "ops/test_math_properties.py": 3,
    "ops/test_moves.py": 2,
    "ops/test_types_conversions.py": 3,
    "programs/test_against_numpy.py": 3,
    "programs/test_views.py": 2,
    "runtime/test_accelerator_calls.py": 2,
    "runtime/test_packed_updates.py": 3,
    "spirv/test_math_doubles.py": 2,
    "test_levels.py": 2,
}
"""Files with large tables of expensive cases -> one in so many cases of each of their tests runs."""
DENSE = "cpu"
"""The device that runs twice as many cases: the other devices share most of the compiler with it."""
SMALL = 3
"""A table with fewer cases than this keeps all of them."""

HERE = Path(__file__).resolve().parent


def configure(config: pytest.Config) -> None:
    """Give Hypothesis the seed of this run."""
    missing = [name for name in TABLES if not (HERE / name).exists()]
    assert not missing, f"tests/samples.py has files that are not there: {missing}"
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)
    settings.register_profile("pydispatch", derandomize=False, database=None, deadline=None, print_blob=True)
    settings.load_profile("pydispatch")


def header() -> str:
    cases = "every case" if IS_THOROUGH else "folders have a sample of their tables; make test-thorough has all"
    return f"PYDISPATCH_TEST_SEED={SEED}: {cases}"


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of large tables that are not of this run, and scale the examples of properties."""
    is_named = any("::" in argument or argument.endswith(".py") for argument in config.args)
    if is_named and not IS_THOROUGH:
        return
    functions = [item for item in items if isinstance(item, pytest.Function)]
    for test in {getattr(item.obj, "__func__", item.obj) for item in functions}:
        if getattr(test, "is_hypothesis_test", False):
            scale(test)
    if IS_THOROUGH:
        return
    tables: dict[tuple[str, str, str], list[pytest.Function]] = defaultdict(list)
    for item in functions:
        name = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if name in TABLES:
            tables[name, item.originalname, _device(item)].append(item)
    dropped: set[pytest.Function] = set()
    for (name, _, device), cases in tables.items():
        one_in = TABLES[name] // 2 if device == DENSE else TABLES[name]
        dropped |= left_out(one_in, cases, SEED)
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def scale(function: Any) -> None:
    """Give a property as many examples as this run has."""
    old = function._hypothesis_internal_use_settings
    factor = FIXED_FACTOR if old.derandomize else FACTOR
    count = max(min(FEWEST, old.max_examples), round(old.max_examples * factor))
    ignored = {*old.suppress_health_check, HealthCheck.too_slow}  # a matter of load
    function._hypothesis_internal_use_settings = settings(old, max_examples=count, suppress_health_check=ignored)


def left_out(one_in: int, cases: list[pytest.Function], seed: int) -> set[pytest.Function]:
    """Return the cases of a table that this run does without.

    Each value of each parameter stays in a case, but for parameters with more values than the sample has cases.
    """
    if one_in < 2 or len(cases) < SMALL:
        return set()
    count = -(-len(cases) // one_in)
    of_parameters: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        for name, value in case.callspec.params.items():
            of_parameters[name].add(repr(value))
    pending = {(name, value) for name, values in of_parameters.items() if len(values) <= count for value in values}
    kept: list[pytest.Function] = []
    shuffled = sorted(cases, key=lambda case: zlib.crc32(f"{seed} {case.name}".encode()))
    for case in shuffled:
        values = {(name, repr(value)) for name, value in case.callspec.params.items()} & pending
        kept += [case] if values else []
        pending -= values
    kept += [case for case in shuffled if case not in kept][: max(0, count - len(kept))]
    return set(cases) - set(kept)


def _device(item: pytest.Function) -> str:
    """Return the device that a case runs on, by the parameter that is named after it; empty for none."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    chosen: Any = next((given[name] for name in ("backend", "target", "device") if name in given), "")
    return str(getattr(chosen, "name", chosen))
