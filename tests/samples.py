"""Chooses what a run of whole folders has: of tables some cases, of expensive tests some, of properties fewer examples.

A run of named files or tests has every case, and as many examples as their settings say.
PYDISPATCH_TEST_SEED=N chooses the cases, tests and examples. By default it is the number of the day, so that runs of
one day agree and two weeks have every case; a run prints it last.
PYDISPATCH_TEST_THOROUGH=1, which `make test-thorough` sets, runs every case, with ten times as many examples.
"""

from __future__ import annotations

import datetime
import os
import platform
import zlib
from collections import Counter, defaultdict
from functools import cache
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
DAYS = {
    "cli/test_bench.py::test_iree": 4,
    "cli/test_bench.py::test_modes": 4,
    "cli/test_bench.py::test_the_fixture": 4,
    "cli/test_check_files.py::test_devices_that_are_wrong": 4,
    "cli/test_check_files.py::test_functions_without_arguments_are_tests": 4,
    "cli/test_check_files.py::test_several_devices": 4,
    "cli/test_check_files.py::test_the_command_of_the_document": 4,
    "cli/test_fatelf.py::test_join_split_select": 4,
    "cli/test_model_files.py::test_compile_and_run": 4,
    "cli/test_plugin_build.py::test_the_example": 4,
    "cli/test_stderr.py::test_what_is_done_and_what_was_fused": 4,
    "cli/test_stubgen.py::test_type_checkers_know_the_functions": 4,
    "cli/test_wrong_values.py::test_wrong_values": 4,
    "compiler/test_artifact_cache.py::test_in_another_process_without_the_compiler": 4,
    "compiler/test_bf16_products.py": 10,
    "compiler/test_block_scaled.py": 6,
    "compiler/test_boundaries.py": 4,
    "compiler/test_boundaries.py::test_every_boundary_of_random_programs_has_a_reason": 4,
    "compiler/test_chains.py::test_any_sizes": 4,
    "compiler/test_chains.py::test_devices_without_such_kernels_run_three": 4,
    "compiler/test_channels_last.py": 6,
    "compiler/test_channels_last.py::test_a_dynamic_batch_may_be_empty": 4,
    "compiler/test_channels_last.py::test_a_strided_window_of_a_residual_block_laid_out_as_columns": 4,
    "compiler/test_channels_last.py::test_a_unet_is_transposed_at_its_ends_alone": 4,
    "compiler/test_channels_last.py::test_depthwise_filters_follow": 4,
    "compiler/test_channels_last.py::test_few_places_and_a_large_filter_are_a_product_of_columns": 4,
    "compiler/test_channels_last.py::test_random_networks": 4,
    "compiler/test_contract.py": 10,
    "compiler/test_contract_bytes.py": 10,
    "compiler/test_contract_bytes.py::test_rows_that_only_the_call_knows": 4,
    "compiler/test_contract_converted.py": 6,
    "compiler/test_contract_fused.py": 4,
    "compiler/test_contract_fused.py::test_convolution_of_bytes": 4,
    "compiler/test_contract_half_precision.py": 8,
    "compiler/test_contract_rows.py": 10,
    "compiler/test_contract_schedule.py": 4,
    "compiler/test_contract_transposed.py": 8,
    "compiler/test_contract_wide.py": 10,
    "compiler/test_cpu_target.py::test_native_uses_what_the_process_may_use": 4,
    "compiler/test_fault_reports.py::test_a_long_program_is_a_file": 4,
    "compiler/test_folded_constants.py": 6,
    "compiler/test_grouped_heads.py::test_any_sizes": 4,
    "compiler/test_inlined_calls.py::test_long_chains_of_calls_are_inlined": 4,
    "compiler/test_large_programs.py::test_weights_in_a_text_are_held_once": 4,
    "compiler/test_large_programs.py::test_work_grows_with_the_length_of_the_program": 4,
    "compiler/test_large_programs.py::test_work_of_long_chains_grows_with_their_length": 4,
    "compiler/test_large_programs.py::test_work_of_wide_programs_grows_with_their_width": 4,
    "compiler/test_llvm_process.py": 4,
    "compiler/test_machine_models.py": 4,
    "compiler/test_mutated_objects.py::test_mutated_objects": 4,
    "compiler/test_quantized.py": 6,
    "compiler/test_quantized.py::test_a_chain_of_convolutions_is_transposed_at_its_ends": 4,
    "compiler/test_quantized_networks.py": 8,
    "compiler/test_row_invariance.py": 6,
    "compiler/test_split.py": 6,
    "compiler/test_split.py::test_short_runs": 4,
    "compiler/test_subnormal_memory.py": 12,
    "compiler/test_subnormal_memory.py::test_contractions": 4,
    "compiler/test_subnormal_memory.py::test_images": 4,
    "compiler/test_tensor_operation.py::test_an_unused_one_is_dropped": 4,
    "compiler/test_tensor_operation.py::test_it_is_fused_with_its_neighbours": 4,
    "compiler/test_tensor_operation.py::test_two_rules_for_one_operation": 4,
    "compiler/test_tensor_operation.py::test_values": 4,
    "compiler/test_tensor_operation.py::test_without_a_rule": 4,
    "compiler/test_units.py::test_damaged_entries_are_replaced": 4,
    "compiler/test_units.py::test_the_number_of_processes_changes_nothing": 4,
    "compiler/test_windows_channels_first.py::test_values": 4,
    "compiler/test_windows_channels_last.py": 6,
    "compiler/test_windows_channels_last.py::test_depthwise": 4,
    "compiler/test_windows_channels_last.py::test_pooling": 4,
    "conformance/kernels/test_arith.py": 6,
    "conformance/kernels/test_math.py": 8,
    "conformance/kernels/test_points.py": 12,
    "conformance/kernels/test_reductions.py": 8,
    "conformance/kernels/test_small.py": 12,
    "conformance/test_checks.py": 12,
    "conformance/test_compositions.py::test_transforms_and_factorizations": 4,
    "conformance/test_many_tensors.py": 6,
    "conformance/test_nonsymmetric_eigenvalues.py": 4,
    "conformance/test_models.py": 8,
    "conformance/test_products.py": 8,
    "conformance/test_random_programs.py": 8,
    "conformance/test_tensor_programs.py": 8,
    "core/test_plugin_systems.py::test_other_systems_compile": 4,
    "cuda/test_cuda_acceptance.py::test_source_for_three_architectures": 4,
    "cuda/test_cuda_acceptance.py::test_the_sweep_notices_what_ptxas_refuses": 4,
    "cuda/test_cuda_acceptance.py::test_tools_that_the_environment_names": 4,
    "cuda/test_cuda_command_line.py::test_compile_with_the_flags_of_the_peer": 4,
    "cuda/test_cuda_command_line.py::test_inspect_of_cubins": 4,
    "cuda/test_cuda_command_line.py::test_warnings_are_lines_on_stderr": 4,
    "cuda/test_cuda_contract_kernels.py::test_older_machines_multiply_halves_in_f32": 4,
    "cuda/test_cuda_contract_kernels.py::test_ptxas_spills_nothing": 4,
    "cuda/test_cuda_contract_values.py": 8,
    "cuda/test_cuda_device_driver.py::test_the_real_package_over_the_fake_driver": 4,
    "cuda/test_cuda_document.py::test_the_example_from_a_shell": 4,
    "cuda/test_cuda_document.py::test_the_page_runs": 4,
    "cuda/test_cuda_generated_programs.py": 4,
    "cuda/test_cuda_gpu_run.py::test_a_checkout_that_is_not_installed": 4,
    "cuda/test_cuda_gpu_run.py::test_everything_runs_on_the_fake_driver": 4,
    "cuda/test_cuda_gpu_run.py::test_the_benchmark_runs_on_the_fake_driver": 4,
    "cuda/test_cuda_manifests.py::test_entries_of_manifests": 4,
    "cuda/test_cuda_target_functions.py": 4,
    "cuda/test_cuda_target_functions.py::test_machine_code_is_linked_to_machine_code": 4,
    "cuda/test_cuda_target_functions.py::test_the_linker_may_end_and_the_compiler_does_not": 4,
    "cuda/test_cuda_target_regions.py": 4,
    "cuda/test_cuda_target_regions.py::test_one_microkernel_for_each_target": 4,
    "cuda/test_cuda_target_runs.py": 6,
    "devlib/test_accuracy.py": 4,
    "devlib/test_builtins.py": 4,
    "devlib/test_builtins.py::test_to_bfloat16": 4,
    "devlib/test_prebuilt.py::test_a_level_is_what_compiling_for_the_machine_gives": 4,
    "devlib/test_vectors.py::test_lanes_compute_what_one_element_does": 4,
    "e2e/test_batch_inference.py::test_every_image_is_classified_and_a_killed_run_goes_on": 4,
    "e2e/test_batch_inference.py::test_the_training_learns": 4,
    "e2e/test_contract_cross.py": 6,
    "e2e/test_default_cpus.py::test_generic_code_beside_it_changes_no_code_for_a_cpu": 4,
    "e2e/test_derived_constants.py": 6,
    "e2e/test_device_state.py::test_a_decode_step_copies_the_token_and_the_logits": 4,
    "e2e/test_emulated_models.py": 4,
    "e2e/test_emulated_models.py::test_here": 4,
    "e2e/test_import_shapes.py::test_two_partial_plugins": 4,
    "e2e/test_imports.py::test_a_plugin_of_each_kind": 4,
    "e2e/test_packed_constants.py": 8,
    "e2e/test_plugin_lives.py::test_liars_are_refused_by_the_device": 4,
    "e2e/test_plugin_lives.py::test_nothing_is_left_after_many_cycles": 4,
    "e2e/test_plugin_lives.py::test_the_peer_loads_what_we_build": 4,
    "e2e/test_programs.py": 12,
    "e2e/test_sums.py": 8,
    "e2e/test_vector_lengths.py": 4,
    "e2e/test_vector_lengths.py::test_the_length_of_vectors_changes_no_bit": 4,
    "embedding/test_cython_extension.py::test_the_documented_extension_builds_and_runs": 4,
    "embedding/test_sequences.py::test_sequences": 4,
    "embedding/test_standalone.py::test_a_file_is_loaded_and_called": 4,
    "emit/test_contract_op.py": 6,
    "emit/test_tile_registers.py": 6,
    "emit/test_transpose_op.py": 6,
    "emit/test_vector_math.py::test_functions": 4,
    "formats/test_artifact_file.py::test_any_members_come_back": 4,
    "frontends/generated/test_random_graphs.py": 6,
    "frontends/mixed/test_mixed_check_files.py::test_each_function": 4,
    "frontends/mixed/test_mixed_examples.py": 6,
    "frontends/mlir/test_nesting.py::test_calls": 4,
    "frontends/models/test_example_models.py::test_a_python_function_may_be_the_kernel": 4,
    "frontends/models/test_example_models.py::test_bert_of_onnx": 4,
    "frontends/models/test_example_models.py::test_gpt2_of_pytorch": 4,
    "frontends/models/test_example_models.py::test_resnet_of_jax": 4,
    "frontends/onnx/test_onnx_models.py": 8,
    "frontends/onnx/test_own_nodes.py::test_every_spelling_of_a_type": 4,
    "frontends/onnx/test_sub_byte_weights.py": 3,
    "operations/test_eigen.py": 4,
    "operations/test_fourier.py": 14,
    "operations/test_fourier.py::test_lengths_that_a_call_decides": 4,
    "operations/test_jacobi.py": 4,
    "operations/test_jacobi.py::test_a_matrix_with_nan_leaves_the_others_of_its_batch_alone": 4,
    "operations/test_jacobi.py::test_columns_of_very_different_lengths": 4,
    "operations/test_linear.py": 6,
    "operations/test_random.py::test_calls_places_and_programs": 4,
    "operations/test_sizes.py::test_arithmetic_is_that_of_integers": 4,
    "operations/test_special.py::test_zeta_of_a_large_order_or_place": 4,
    "operations/test_tensors.py": 4,
    "operations/test_tensors.py::test_convolutions": 4,
    "frontends/stablehlo/test_elements.py": 4,
    "frontends/stablehlo/test_elements.py::test_functions_of_complex_numbers": 4,
    "frontends/stablehlo/test_elements.py::test_functions_of_floats": 4,
    "frontends/stablehlo/test_every_operation.py": 10,
    "frontends/stablehlo/test_every_operation.py::test_random_numbers": 4,
    "frontends/stablehlo/test_jax.py": 8,
    "frontends/stablehlo/test_structure.py": 6,
    "frontends/stablehlo/test_structure.py::test_random_numbers": 4,
    "frontends/torch/test_pt2_models.py": 6,
    "frontends/tosa/test_tosa_elementwise.py": 4,
    "frontends/tosa/test_tosa_tensors.py": 6,
    "frontends/tosa/test_tosa_tensors.py::test_fourier_transforms": 4,
    "frontends/tosa/test_tosa_tensors.py::test_pooling": 4,
    "frontends/tosa/test_tosa_tensors.py::test_reductions": 4,
    "ir/test_mutations.py": 4,
    "ir/test_peer.py": 4,
    "kernels/test_gallery.py": 6,
    "kernels/test_kernels_on_devices.py::test_the_examples": 4,
    "kernels/test_tile_products.py::test_types": 4,
    "llm/test_chat.py::test_tokens": 4,
    "llm/test_decoders.py": 6,
    "llm/test_decoders.py::test_an_engine_gives_each_request_the_tokens_that_it_gets_alone": 4,
    "match/test_explain_matches.py::test_hundreds_of_matchers_that_look_at_the_operation_alone": 4,
    "match/test_explain_matches.py::test_hundreds_of_patterns_over_thousands_of_operations": 4,
    "match/test_match_example.py::test_the_pdl_way": 4,
    "match/test_pdl_spec.py::test_hundreds_of_patterns_of_one_root": 4,
    "ops/test_affine.py::test_any": 4,
    "ops/test_attention.py": 4,
    "ops/test_attention.py::test_attention": 4,
    "ops/test_attention.py::test_attention_of_matrices": 4,
    "ops/test_attention.py::test_online_attention_over_parts_of_the_keys": 4,
    "ops/test_contractions.py": 4,
    "ops/test_contractions.py::test_native": 4,
    "ops/test_contractions.py::test_quantized": 4,
    "ops/test_convolutions.py": 6,
    "ops/test_fft.py::test_all_stages_are_a_transform": 4,
    "ops/test_generics.py": 4,
    "ops/test_generics.py::test_attention": 4,
    "ops/test_generics.py::test_softmax": 4,
    "ops/test_linalg_ext.py": 8,
    "ops/test_linalg_ext.py::test_sort": 4,
    "ops/test_linalg_ext.py::test_topk": 4,
    "ops/test_math_properties.py": 8,
    "ops/test_moves.py": 4,
    "ops/test_moves.py::test_chains": 4,
    "ops/test_types_conversions.py": 10,
    "ops/test_winograd.py::test_a_convolution": 4,
    "programs/test_against_numpy.py": 6,
    "programs/test_linalg.py": 4,
    "programs/test_traced_programs.py::test_everything": 4,
    "programs/test_views.py": 4,
    "ptx/test_ptx_reader_invalid.py::test_texts_that_are_made_to_hurt": 4,
    "runtime/test_accelerator_calls.py": 6,
    "runtime/test_accelerator_calls.py::test_prepared_calls_outlive_plans_of_other_shapes": 4,
    "runtime/test_batched.py::test_threads_get_the_bits_of_single_calls": 4,
    "runtime/test_closed_devices.py::test_kernels_and_programs_find_the_new_device": 4,
    "runtime/test_device_states.py::test_sequences": 4,
    "runtime/test_manifest_fields.py::test_a_field_of_another_kind_is_an_artifact_error": 4,
    "runtime/test_manifest_fields.py::test_what_people_read_of_a_manifest_never_fails": 4,
    "runtime/test_no_descriptors.py::test_no_descriptor_is_left": 4,
    "runtime/test_packed_updates.py": 10,
    "runtime/test_runtime_cycles.py::test_maps_files_threads_and_memory_stay": 4,
    "runtime/test_runtime_lifetime.py::test_children_forked_while_others_allocate_can_call": 4,
    "runtime/test_runtime_limits.py::test_an_artifact_cut_off_under_a_program_keeps_its_code": 4,
    "runtime/test_runtime_perf.py::test_an_address_in_a_kernel_has_its_name": 4,
    "runtime/test_runtime_reentry.py::test_forks_while_the_device_is_closed": 4,
    "runtime/test_submit.py::test_fork_and_the_end_of_the_interpreter": 4,
    "spirv/test_math_doubles.py": 4,
    "test_class_names.py::test_no_class_name_occurs_twice_in_a_folder": 4,
    "test_extending.py::test_a_package_that_is_wrong_is_named": 4,
    "test_levels.py": 4,
    "vulkan/test_long_loops.py": 4,
    "vulkan/test_spirv_check.py::test_mutants_never_crash_the_driver": 4,
    "vulkan/test_vulkan_document.py::test_devices_are_listed": 4,
    "vulkan/test_vulkan_document.py::test_the_example_runs": 4,
    "vulkan/test_vulkan_errors.py::test_a_broken_pipeline_cache_is_nothing": 4,
    "vulkan/test_vulkan_errors.py::test_no_driver_and_no_loader_and_no_package": 4,
    "vulkan/test_vulkan_interrupts.py": 6,
    "vulkan/test_wide_blocks.py::test_products": 4,
    "webgpu/test_f16.py": 4,
    "webgpu/test_f16.py::test_arithmetic_is_that_of_ieee_where_the_device_rounds_to_nearest": 4,
    "webgpu/test_large_grids.py::test_a_generated_dispatch_takes_shares": 4,
    "webgpu/test_wgsl_reader.py::test_any_change_is_an_error_or_another_module": 4,
    "webgpu/test_wgsl_same_bytes.py::test_a_program_with_wide_indices_does_not_change_the_next_one": 4,
}
"""Expensive files and tests -> each case of a table of the file, or of the test, runs once in so many days.

A test that is named here may have no case on a day. Any other test has at least one.
"""
EMULATED = ("aarch64", "riscv64")
"""Machines that are emulated: a run has one, since zig compiles a C library for half a minute for each."""
OTHER_DAYS = 4
"""As DAYS, for tables of other files."""
DENSE = "cpu"
"""The device whose cases return in half the days: the other devices share most of the compiler with it."""
SMALL = 3
"""A table of a file in DAYS with fewer cases than this keeps all of them."""
MEDIUM = 8
"""A table of another file with fewer cases than this keeps all of them."""

HERE = Path(__file__).resolve().parent


def configure(config: pytest.Config) -> None:
    """Give Hypothesis the seed of this run."""
    missing = [name for name in DAYS if not (HERE / name.partition("::")[0]).exists()]
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
    dropped = not_today(functions)
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


def not_today(functions: list[pytest.Function]) -> set[pytest.Function]:
    """Return the tests, and the cases of tables, that this run does without."""
    dropped = {item for item in functions if _is_of_another_run(item)}
    tables: dict[tuple[str, str, str], list[pytest.Function]] = defaultdict(list)
    for item in functions:
        if item not in dropped:
            tables[_name(item.path), item.originalname, _machine(item) or _device(item)].append(item)
    for (file, test, where), cases in tables.items():
        name, seed = f"{file}::{test}", SEED
        days = DAYS.get(name, DAYS.get(file, OTHER_DAYS))
        if where in EMULATED:
            days, seed = days // 2, SEED // 2  # a run on every second day has these cases
        elif where == DENSE:
            days //= 2
        if name in DAYS:
            dropped |= set(cases).difference(of_today(days, cases, seed, f"{name} {where}"))
        elif len(cases) >= (SMALL if file in DAYS else MEDIUM):
            dropped |= left_out(days, cases, seed)
    return dropped


def _is_of_another_run(item: pytest.Function) -> bool:
    """Return whether a test is of an emulated machine that another run has."""
    return _machine(item) not in ("", EMULATED[SEED % 2], platform.machine())


def scale(function: Any) -> None:
    """Give a property as many examples as this run has."""
    old = function._hypothesis_internal_use_settings
    factor = FIXED_FACTOR if old.derandomize else FACTOR
    count = max(min(FEWEST, old.max_examples), round(old.max_examples * factor))
    ignored = {*old.suppress_health_check, HealthCheck.too_slow}  # a matter of load
    function._hypothesis_internal_use_settings = settings(old, max_examples=count, suppress_health_check=ignored)


def left_out(days: int, cases: list[pytest.Function], seed: int) -> set[pytest.Function]:
    """Return the cases of a table that this run does without.

    The shares of the table take turns by seed. Each value of each parameter stays in a case, but for parameters with
    more values than a share has cases.
    """
    if days < 2:
        return set()
    shares = deal(days, cases)
    kept = shares[seed % len(shares)]
    shuffled = sorted(cases, key=lambda case: zlib.crc32(f"{seed} {case.name}".encode()))
    pending = _values_to_cover(days, cases).difference(*map(_values, kept))
    return set(cases).difference(kept, _covering(pending, shuffled))


def of_today(days: int, cases: list[pytest.Function], seed: int, name: str) -> list[pytest.Function]:
    """Return the cases of an expensive test that this run has, of fewer cases than days possibly none."""
    shares, turn = deal(days, cases), (seed + zlib.crc32(name.encode())) % days
    return shares[turn] if turn < len(shares) else []


def deal(days: int, cases: list[pytest.Function]) -> list[list[pytest.Function]]:
    """Return the cases in shares, one a day, which have as many values of parameters as possible.

    The shares depend on the names of the cases only, so that each case runs once while all shares take their turns.
    """
    size, covered = -(-len(cases) // days), _values_to_cover(days, cases)
    rest = sorted(cases, key=lambda case: zlib.crc32(case.name.encode()))
    shares = []
    while rest:
        share = dict.fromkeys(_covering(covered, rest)[:size])
        share |= dict.fromkeys([case for case in rest if case not in share][: size - len(share)])
        rest = [case for case in rest if case not in share]
        shares.append(list(share))
    return shares


def _parameters(item: pytest.Function) -> dict[str, Any]:
    """Return the parameters of a case; none for a test that is no table."""
    return item.callspec.params if hasattr(item, "callspec") else {}


@cache
def _values(case: pytest.Function) -> set[tuple[str, str]]:
    """Return the names and values of the parameters of a case."""
    return {(name, repr(value)) for name, value in _parameters(case).items()}


def _values_to_cover(days: int, cases: list[pytest.Function]) -> set[tuple[str, str]]:
    """Return the values of those parameters that have no more of them than a share has cases."""
    values = set().union(*map(_values, cases))
    counts = Counter(name for name, _ in values)
    return {value for value in values if counts[value[0]] <= -(-len(cases) // days)}


def _covering(pending: set[tuple[str, str]], cases: list[pytest.Function]) -> list[pytest.Function]:
    """Return those cases that have a pending value which no case before them has."""
    pending, chosen = set(pending), []
    for case in cases:
        if not pending:
            break
        if _values(case) & pending:
            chosen.append(case)
            pending -= _values(case)
    return chosen


@cache
def _name(path: Path) -> str:
    """Return the path of a file relative to the folder of all tests; empty for a file that is not in it."""
    return path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""


def _machine(item: pytest.Function) -> str:
    """Return the machine of EMULATED that a case is for; empty for none."""
    words = (value for value in _parameters(item).values() if isinstance(value, str))
    return next((word for word in words if word in EMULATED), "")


def _device(item: pytest.Function) -> str:
    """Return the device that a case runs on, by the parameter that is named after it; empty for none."""
    parameters = _parameters(item)
    chosen: Any = next((parameters[name] for name in ("backend", "target", "device") if name in parameters), "")
    return str(getattr(chosen, "name", chosen))
