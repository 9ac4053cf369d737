"""Chooses what a run of whole folders has: of tables some cases, of expensive tests some, of properties fewer examples.

A run of named files or tests has every case, and as many examples as their settings say.
PYDISPATCH_TEST_SEED=N chooses the cases, tests and examples. By default it is the number of the day, so that runs of
one day agree and many days have everything; a run prints it last.
PYDISPATCH_TEST_THOROUGH=1, which `make test-thorough` sets, runs every case, with ten times as many examples.
"""

from __future__ import annotations

import datetime
import os
import platform
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SEED = int(os.environ.setdefault("PYDISPATCH_TEST_SEED", str(datetime.date.today().toordinal())))
IS_THOROUGH = os.environ.get("PYDISPATCH_TEST_THOROUGH") == "1"
IS_SAMPLED = os.environ.get("PYDISPATCH_TEST_SAMPLED") == "1"
"""Whether a run of named files has a sample too: mutation testing measures what it misses."""
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
    "compiler/test_contract_half_precision.py": 3,
    "compiler/test_contract_rows.py": 3,
    "compiler/test_contract_schedule.py": 2,
    "compiler/test_contract_transposed.py": 3,
    "compiler/test_contract_wide.py": 3,
    "compiler/test_folded_constants.py": 2,
    "compiler/test_machine_models.py": 2,
    "compiler/test_quantized.py": 2,
    "compiler/test_split.py": 2,
    "compiler/test_subnormal_memory.py": 4,
    "compiler/test_windows_channels_last.py": 2,
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
    "frontends/onnx/test_sub_byte_weights.py": 2,
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
ROTATION = (
    "cli/test_model_files.py::test_compile_and_run",
    "cli/test_wrong_values.py::test_wrong_values",
    "compiler/test_large_programs.py::test_weights_in_a_text_are_held_once",
    "compiler/test_large_programs.py::test_work_of_wide_programs_grows_with_their_width",
    "compiler/test_mutated_objects.py::test_mutated_objects",
    "compiler/test_units.py::test_damaged_entries_are_replaced",
    "compiler/test_units.py::test_the_number_of_processes_changes_nothing",
    "conformance/test_compositions.py::test_transforms_and_factorizations",
    "cuda/test_cuda_acceptance.py::test_source_for_three_architectures",
    "cuda/test_cuda_acceptance.py::test_the_sweep_notices_what_ptxas_refuses",
    "cuda/test_cuda_command_line.py::test_compile_with_the_flags_of_the_peer",
    "cuda/test_cuda_contract_kernels.py::test_older_machines_multiply_halves_in_f32",
    "cuda/test_cuda_contract_kernels.py::test_ptxas_spills_nothing",
    "cuda/test_cuda_device_driver.py::test_the_real_package_over_the_fake_driver",
    "cuda/test_cuda_gpu_run.py::test_everything_runs_on_the_fake_driver",
    "cuda/test_cuda_gpu_run.py::test_the_benchmark_runs_on_the_fake_driver",
    "devlib/test_prebuilt.py::test_a_level_is_what_compiling_for_the_machine_gives",
    "devlib/test_vectors.py::test_lanes_compute_what_one_element_does",
    "e2e/test_batch_inference.py::test_every_image_is_classified_and_a_killed_run_goes_on",
    "e2e/test_batch_inference.py::test_the_training_learns",
    "e2e/test_default_cpus.py::test_generic_code_beside_it_changes_no_code_for_a_cpu",
    "e2e/test_device_state.py::test_a_decode_step_copies_the_token_and_the_logits",
    "e2e/test_plugin_lives.py::test_liars_are_refused_by_the_device",
    "e2e/test_plugin_lives.py::test_nothing_is_left_after_many_cycles",
    "e2e/test_plugin_lives.py::test_the_peer_loads_what_we_build",
    "emit/test_vector_math.py::test_functions",
    "formats/test_artifact_file.py::test_any_members_come_back",
    "frontends/models/test_example_models.py::test_a_python_function_may_be_the_kernel",
    "kernels/test_kernels_on_devices.py::test_the_examples",
    "kernels/test_tile_products.py::test_types",
    "match/test_explain_matches.py::test_hundreds_of_patterns_over_thousands_of_operations",
    "match/test_pdl_spec.py::test_hundreds_of_patterns_of_one_root",
    "programs/test_traced_programs.py::test_everything",
    "ptx/test_ptx_reader_invalid.py::test_texts_that_are_made_to_hurt",
    "runtime/test_manifest_fields.py::test_a_field_of_another_kind_is_an_artifact_error",
    "runtime/test_no_descriptors.py::test_no_descriptor_is_left",
    "runtime/test_runtime_cycles.py::test_maps_files_threads_and_memory_stay",
    "test_extending.py::test_a_package_that_is_wrong_is_named",
    "vulkan/test_wide_blocks.py::test_products",
)
"""Expensive tests that few changes concern: a run has every second one, and the run of the next day the others."""
EMULATED = ("aarch64", "riscv64")
"""Machines that are emulated: a run has one, since zig compiles a C library for half a minute for each."""
ONE_IN = 2
"""Of tables in other files, one in so many cases runs."""
DENSE = "cpu"
"""The device that runs twice as many cases: the other devices share most of the compiler with it."""
SMALL = 3
"""A table of a file in TABLES with fewer cases than this keeps all of them."""
MEDIUM = 8
"""A table of another file with fewer cases than this keeps all of them."""

HERE = Path(__file__).resolve().parent


def configure(config: pytest.Config) -> None:
    """Give Hypothesis the seed of this run."""
    files = (*TABLES, *(test.partition("::")[0] for test in ROTATION))
    missing = [name for name in files if not (HERE / name).exists()]
    assert not missing, f"tests/samples.py has files that are not there: {missing}"
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)
    settings.register_profile("pydispatch", derandomize=False, database=None, deadline=None, print_blob=True)
    settings.load_profile("pydispatch")


def header() -> str:
    cases = "every case" if IS_THOROUGH else "folders have a sample of their tests; make test-thorough has all"
    return f"PYDISPATCH_TEST_SEED={SEED}: {cases}"


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is not of this run, and scale the examples of properties."""
    is_named = any("::" in argument or argument.endswith(".py") for argument in config.args)
    if is_named and not IS_THOROUGH and not IS_SAMPLED:
        return
    functions = [item for item in items if isinstance(item, pytest.Function)]
    for test in {getattr(item.obj, "__func__", item.obj) for item in functions}:
        if getattr(test, "is_hypothesis_test", False):
            scale(test)
    if IS_THOROUGH:
        return
    dropped = {item for item in functions if _is_of_another_run(item)}
    tables: dict[tuple[str, str, str], list[pytest.Function]] = defaultdict(list)
    for item in functions:
        if item not in dropped:
            tables[_file(item), item.originalname, _device(item)].append(item)
    for (name, _, device), cases in tables.items():
        one_in, smallest = (TABLES[name], SMALL) if name in TABLES else (ONE_IN, MEDIUM)
        if len(cases) >= smallest:
            dropped |= left_out(one_in // 2 if device == DENSE else one_in, cases, SEED)
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def _is_of_another_run(item: pytest.Function) -> bool:
    """Return whether a test is one of those that take turns, and it is not its turn."""
    name = f"{_file(item)}::{item.originalname}"
    if name in ROTATION:
        return (ROTATION.index(name) + SEED) % 2 == 1
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    machines = [value for value in values if isinstance(value, str) and value in EMULATED]
    return any(machine not in (EMULATED[SEED % 2], platform.machine()) for machine in machines)


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
    if one_in < 2:
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


def _file(item: pytest.Function) -> str:
    """Return the file of a test, relative to the folder of all tests."""
    return item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""


def _device(item: pytest.Function) -> str:
    """Return the device that a case runs on, by the parameter that is named after it; empty for none."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    chosen: Any = next((given[name] for name in ("backend", "target", "device") if name in given), "")
    return str(getattr(chosen, "name", chosen))
