"""Chooses what a run of whole folders has: of tables some cases, of expensive tests some, of properties fewer examples.

A run of named files or tests has every case, and as many examples as their settings say.
PYDISPATCH_TEST_SEED=N chooses the cases, tests and examples. By default it is the number of the day, so that runs of
one day agree and a few weeks have everything; a run prints it last.
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
    "compiler/test_bf16_products.py": 5,
    "compiler/test_boundaries.py": 2,
    "compiler/test_channels_last.py": 3,
    "compiler/test_contract.py": 5,
    "compiler/test_contract_bytes.py": 5,
    "compiler/test_contract_converted.py": 3,
    "compiler/test_contract_fused.py": 2,
    "compiler/test_contract_half_precision.py": 4,
    "compiler/test_contract_rows.py": 5,
    "compiler/test_contract_schedule.py": 2,
    "compiler/test_contract_transposed.py": 4,
    "compiler/test_contract_wide.py": 5,
    "compiler/test_folded_constants.py": 3,
    "compiler/test_llvm_process.py": 2,
    "compiler/test_machine_models.py": 2,
    "compiler/test_quantized.py": 3,
    "compiler/test_quantized_networks.py": 4,
    "compiler/test_row_invariance.py": 3,
    "compiler/test_split.py": 3,
    "compiler/test_subnormal_memory.py": 6,
    "compiler/test_windows_channels_last.py": 3,
    "conformance/kernels/test_arith.py": 3,
    "conformance/kernels/test_math.py": 4,
    "conformance/kernels/test_points.py": 6,
    "conformance/kernels/test_reductions.py": 4,
    "conformance/kernels/test_small.py": 6,
    "conformance/test_checks.py": 6,
    "conformance/test_models.py": 4,
    "conformance/test_products.py": 4,
    "conformance/test_random_programs.py": 4,
    "conformance/test_tensor_programs.py": 4,
    "cuda/test_cuda_contract_values.py": 4,
    "cuda/test_cuda_generated_programs.py": 2,
    "cuda/test_cuda_target_functions.py": 2,
    "cuda/test_cuda_target_regions.py": 2,
    "cuda/test_cuda_target_runs.py": 3,
    "devlib/test_accuracy.py": 2,
    "devlib/test_builtins.py": 2,
    "e2e/test_contract_cross.py": 3,
    "e2e/test_derived_constants.py": 3,
    "e2e/test_emulated_models.py": 2,
    "e2e/test_packed_constants.py": 4,
    "e2e/test_programs.py": 6,
    "e2e/test_sums.py": 4,
    "e2e/test_vector_lengths.py": 2,
    "emit/test_contract_op.py": 3,
    "emit/test_tile_registers.py": 3,
    "emit/test_transpose_op.py": 3,
    "frontends/generated/test_random_graphs.py": 3,
    "frontends/mixed/test_mixed_examples.py": 3,
    "frontends/onnx/test_onnx_models.py": 4,
    "frontends/onnx/test_sub_byte_weights.py": 3,
    "frontends/ops/test_fourier.py": 12,
    "frontends/ops/test_jacobi.py": 2,
    "frontends/ops/test_linear.py": 3,
    "frontends/ops/test_tensors.py": 2,
    "frontends/stablehlo/test_elements.py": 2,
    "frontends/stablehlo/test_every_operation.py": 5,
    "frontends/stablehlo/test_jax.py": 4,
    "frontends/stablehlo/test_structure.py": 3,
    "frontends/torch/test_pt2_models.py": 3,
    "frontends/tosa/test_tosa_elementwise.py": 2,
    "frontends/tosa/test_tosa_tensors.py": 3,
    "ir/test_mutations.py": 2,
    "ir/test_peer.py": 2,
    "kernels/test_gallery.py": 3,
    "llm/test_decoders.py": 3,
    "ops/test_attention.py": 2,
    "ops/test_contractions.py": 2,
    "ops/test_convolutions.py": 3,
    "ops/test_generics.py": 2,
    "ops/test_linalg_ext.py": 4,
    "ops/test_math_properties.py": 4,
    "ops/test_moves.py": 2,
    "ops/test_types_conversions.py": 5,
    "programs/test_against_numpy.py": 3,
    "programs/test_views.py": 2,
    "runtime/test_accelerator_calls.py": 3,
    "runtime/test_packed_updates.py": 5,
    "spirv/test_math_doubles.py": 2,
    "test_levels.py": 2,
    "vulkan/test_long_loops.py": 2,
    "vulkan/test_vulkan_interrupts.py": 3,
    "webgpu/test_f16.py": 2,
}
"""Files with large tables of expensive cases -> one in so many cases of each of their tests runs."""
ROTATION = (
    "cli/test_bench.py::test_iree",
    "cli/test_bench.py::test_modes",
    "cli/test_bench.py::test_the_fixture",
    "cli/test_check_files.py::test_devices_that_are_wrong",
    "cli/test_check_files.py::test_functions_without_arguments_are_tests",
    "cli/test_check_files.py::test_several_devices",
    "cli/test_check_files.py::test_the_command_of_the_document",
    "cli/test_fatelf.py::test_join_split_select",
    "cli/test_model_files.py::test_compile_and_run",
    "cli/test_plugin_build.py::test_the_example",
    "cli/test_stderr.py::test_what_is_done_and_what_was_fused",
    "cli/test_stubgen.py::test_type_checkers_know_the_functions",
    "cli/test_wrong_values.py::test_wrong_values",
    "compiler/test_artifact_cache.py::test_in_another_process_without_the_compiler",
    "compiler/test_boundaries.py::test_every_boundary_of_random_programs_has_a_reason",
    "compiler/test_chains.py::test_any_sizes",
    "compiler/test_chains.py::test_devices_without_such_kernels_run_three",
    "compiler/test_channels_last.py::test_a_dynamic_batch_may_be_empty",
    "compiler/test_channels_last.py::test_a_strided_window_of_a_residual_block_laid_out_as_columns",
    "compiler/test_channels_last.py::test_a_unet_is_transposed_at_its_ends_alone",
    "compiler/test_channels_last.py::test_depthwise_filters_follow",
    "compiler/test_channels_last.py::test_few_places_and_a_large_filter_are_a_product_of_columns",
    "compiler/test_channels_last.py::test_random_networks",
    "compiler/test_contract_bytes.py::test_rows_that_only_the_call_knows",
    "compiler/test_contract_fused.py::test_convolution_of_bytes",
    "compiler/test_cpu_target.py::test_native_uses_what_the_process_may_use",
    "compiler/test_fault_reports.py::test_a_long_program_is_a_file",
    "compiler/test_grouped_heads.py::test_any_sizes",
    "compiler/test_inlined_calls.py::test_long_chains_of_calls_are_inlined",
    "compiler/test_large_programs.py::test_weights_in_a_text_are_held_once",
    "compiler/test_large_programs.py::test_work_grows_with_the_length_of_the_program",
    "compiler/test_large_programs.py::test_work_of_long_chains_grows_with_their_length",
    "compiler/test_large_programs.py::test_work_of_wide_programs_grows_with_their_width",
    "compiler/test_mutated_objects.py::test_mutated_objects",
    "compiler/test_quantized.py::test_a_chain_of_convolutions_is_transposed_at_its_ends",
    "compiler/test_split.py::test_short_runs",
    "compiler/test_subnormal_memory.py::test_contractions",
    "compiler/test_subnormal_memory.py::test_images",
    "compiler/test_tensor_operation.py::test_an_unused_one_is_dropped",
    "compiler/test_tensor_operation.py::test_it_is_fused_with_its_neighbours",
    "compiler/test_tensor_operation.py::test_two_rules_for_one_operation",
    "compiler/test_tensor_operation.py::test_values",
    "compiler/test_tensor_operation.py::test_without_a_rule",
    "compiler/test_units.py::test_damaged_entries_are_replaced",
    "compiler/test_units.py::test_the_number_of_processes_changes_nothing",
    "compiler/test_windows_channels_first.py::test_values",
    "compiler/test_windows_channels_last.py::test_depthwise",
    "compiler/test_windows_channels_last.py::test_pooling",
    "conformance/test_compositions.py::test_transforms_and_factorizations",
    "core/test_plugin_systems.py::test_other_systems_compile",
    "cuda/test_cuda_acceptance.py::test_source_for_three_architectures",
    "cuda/test_cuda_acceptance.py::test_the_sweep_notices_what_ptxas_refuses",
    "cuda/test_cuda_acceptance.py::test_tools_that_the_environment_names",
    "cuda/test_cuda_command_line.py::test_compile_with_the_flags_of_the_peer",
    "cuda/test_cuda_command_line.py::test_inspect_of_cubins",
    "cuda/test_cuda_command_line.py::test_warnings_are_lines_on_stderr",
    "cuda/test_cuda_contract_kernels.py::test_older_machines_multiply_halves_in_f32",
    "cuda/test_cuda_contract_kernels.py::test_ptxas_spills_nothing",
    "cuda/test_cuda_device_driver.py::test_the_real_package_over_the_fake_driver",
    "cuda/test_cuda_document.py::test_the_example_from_a_shell",
    "cuda/test_cuda_document.py::test_the_page_runs",
    "cuda/test_cuda_gpu_run.py::test_a_checkout_that_is_not_installed",
    "cuda/test_cuda_gpu_run.py::test_everything_runs_on_the_fake_driver",
    "cuda/test_cuda_gpu_run.py::test_the_benchmark_runs_on_the_fake_driver",
    "cuda/test_cuda_manifests.py::test_entries_of_manifests",
    "cuda/test_cuda_target_functions.py::test_machine_code_is_linked_to_machine_code",
    "cuda/test_cuda_target_functions.py::test_the_linker_may_end_and_the_compiler_does_not",
    "cuda/test_cuda_target_regions.py::test_one_microkernel_for_each_target",
    "devlib/test_builtins.py::test_to_bfloat16",
    "devlib/test_prebuilt.py::test_a_level_is_what_compiling_for_the_machine_gives",
    "devlib/test_vectors.py::test_lanes_compute_what_one_element_does",
    "e2e/test_batch_inference.py::test_every_image_is_classified_and_a_killed_run_goes_on",
    "e2e/test_batch_inference.py::test_the_training_learns",
    "e2e/test_default_cpus.py::test_generic_code_beside_it_changes_no_code_for_a_cpu",
    "e2e/test_device_state.py::test_a_decode_step_copies_the_token_and_the_logits",
    "e2e/test_emulated_models.py::test_here",
    "e2e/test_import_shapes.py::test_two_partial_plugins",
    "e2e/test_imports.py::test_a_plugin_of_each_kind",
    "e2e/test_plugin_lives.py::test_liars_are_refused_by_the_device",
    "e2e/test_plugin_lives.py::test_nothing_is_left_after_many_cycles",
    "e2e/test_plugin_lives.py::test_the_peer_loads_what_we_build",
    "e2e/test_vector_lengths.py::test_the_length_of_vectors_changes_no_bit",
    "embedding/test_cython_extension.py::test_the_documented_extension_builds_and_runs",
    "embedding/test_sequences.py::test_sequences",
    "embedding/test_standalone.py::test_a_file_is_loaded_and_called",
    "emit/test_vector_math.py::test_functions",
    "formats/test_artifact_file.py::test_any_members_come_back",
    "frontends/mixed/test_mixed_check_files.py::test_each_function",
    "frontends/mlir/test_nesting.py::test_calls",
    "frontends/models/test_example_models.py::test_a_python_function_may_be_the_kernel",
    "frontends/models/test_example_models.py::test_bert_of_onnx",
    "frontends/models/test_example_models.py::test_gpt2_of_pytorch",
    "frontends/models/test_example_models.py::test_resnet_of_jax",
    "frontends/onnx/test_own_nodes.py::test_every_spelling_of_a_type",
    "frontends/ops/test_fourier.py::test_lengths_that_a_call_decides",
    "frontends/ops/test_jacobi.py::test_a_matrix_with_nan_leaves_the_others_of_its_batch_alone",
    "frontends/ops/test_jacobi.py::test_columns_of_very_different_lengths",
    "frontends/ops/test_random.py::test_calls_places_and_programs",
    "frontends/ops/test_sizes.py::test_arithmetic_is_that_of_integers",
    "frontends/ops/test_special.py::test_zeta_of_a_large_order_or_place",
    "frontends/ops/test_tensors.py::test_convolutions",
    "frontends/stablehlo/test_elements.py::test_functions_of_complex_numbers",
    "frontends/stablehlo/test_elements.py::test_functions_of_floats",
    "frontends/stablehlo/test_every_operation.py::test_random_numbers",
    "frontends/stablehlo/test_structure.py::test_random_numbers",
    "frontends/tosa/test_tosa_tensors.py::test_fourier_transforms",
    "frontends/tosa/test_tosa_tensors.py::test_pooling",
    "frontends/tosa/test_tosa_tensors.py::test_reductions",
    "kernels/test_kernels_on_devices.py::test_the_examples",
    "kernels/test_tile_products.py::test_types",
    "llm/test_chat.py::test_tokens",
    "llm/test_decoders.py::test_an_engine_gives_each_request_the_tokens_that_it_gets_alone",
    "match/test_explain_matches.py::test_hundreds_of_matchers_that_look_at_the_operation_alone",
    "match/test_explain_matches.py::test_hundreds_of_patterns_over_thousands_of_operations",
    "match/test_match_example.py::test_the_pdl_way",
    "match/test_pdl_spec.py::test_hundreds_of_patterns_of_one_root",
    "ops/test_affine.py::test_any",
    "ops/test_attention.py::test_attention",
    "ops/test_attention.py::test_attention_of_matrices",
    "ops/test_attention.py::test_online_attention_over_parts_of_the_keys",
    "ops/test_contractions.py::test_native",
    "ops/test_contractions.py::test_quantized",
    "ops/test_fft.py::test_all_stages_are_a_transform",
    "ops/test_generics.py::test_attention",
    "ops/test_generics.py::test_softmax",
    "ops/test_linalg_ext.py::test_sort",
    "ops/test_linalg_ext.py::test_topk",
    "ops/test_moves.py::test_chains",
    "ops/test_winograd.py::test_a_convolution",
    "programs/test_traced_programs.py::test_everything",
    "ptx/test_ptx_reader_invalid.py::test_texts_that_are_made_to_hurt",
    "runtime/test_accelerator_calls.py::test_prepared_calls_outlive_plans_of_other_shapes",
    "runtime/test_batched.py::test_threads_get_the_bits_of_single_calls",
    "runtime/test_closed_devices.py::test_kernels_and_programs_find_the_new_device",
    "runtime/test_device_states.py::test_sequences",
    "runtime/test_manifest_fields.py::test_a_field_of_another_kind_is_an_artifact_error",
    "runtime/test_manifest_fields.py::test_what_people_read_of_a_manifest_never_fails",
    "runtime/test_no_descriptors.py::test_no_descriptor_is_left",
    "runtime/test_runtime_cycles.py::test_maps_files_threads_and_memory_stay",
    "runtime/test_runtime_lifetime.py::test_children_forked_while_others_allocate_can_call",
    "runtime/test_runtime_limits.py::test_an_artifact_cut_off_under_a_program_keeps_its_code",
    "runtime/test_runtime_perf.py::test_an_address_in_a_kernel_has_its_name",
    "runtime/test_runtime_reentry.py::test_forks_while_the_device_is_closed",
    "runtime/test_submit.py::test_fork_and_the_end_of_the_interpreter",
    "test_class_names.py::test_no_class_name_occurs_twice_in_a_folder",
    "test_extending.py::test_a_package_that_is_wrong_is_named",
    "vulkan/test_spirv_check.py::test_mutants_never_crash_the_driver",
    "vulkan/test_vulkan_document.py::test_devices_are_listed",
    "vulkan/test_vulkan_document.py::test_the_example_runs",
    "vulkan/test_vulkan_errors.py::test_a_broken_pipeline_cache_is_nothing",
    "vulkan/test_vulkan_errors.py::test_no_driver_and_no_loader_and_no_package",
    "vulkan/test_wide_blocks.py::test_products",
    "webgpu/test_f16.py::test_arithmetic_is_that_of_ieee_where_the_device_rounds_to_nearest",
    "webgpu/test_large_grids.py::test_a_generated_dispatch_takes_shares",
    "webgpu/test_wgsl_reader.py::test_any_change_is_an_error_or_another_module",
    "webgpu/test_wgsl_same_bytes.py::test_a_program_with_wide_indices_does_not_change_the_next_one",
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
