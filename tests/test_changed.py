"""Which tests `make test-changed` takes for a change, and in which order."""

from __future__ import annotations

from pathlib import Path

import changed
import pytest

TESTS = Path(__file__).resolve().parent


@pytest.mark.parametrize(("file", "test", "distance"), [
    ("tests/compiler/test_im2col.py", "compiler/test_im2col.py", "changed"),
    ("tests/ops/harness.py", "ops/test_math_properties.py", "changed"),
    ("pydispatch/compiler/fusion/im2col.py", "compiler/test_im2col.py", "imports it or has its name and folder"),
    ("pydispatch/formats/storage/stored_zip.py", "formats/test_artifact_file.py", "has its folder or name"),
    ("_core/artifact.pyx", "core/test_artifact.py", "imports it or has its name and folder"),
    ("csrc/elf/parse.c", "core/test_elf.py", "has its folder or name"),
    ("tests/frontends/onnx/cases.npz", "frontends/onnx/test_onnx_models.py", "changed"),
    ("tests/frontends/onnx/make.py", "frontends/onnx/test_onnx_models.py", "changed"),
    ("docs/index.md", "test_folder_readmes.py", "conventions"),
    ("docs/index.md", "test_layers.py", "smoke"),
])  # fmt: skip
def test_the_distance_of_a_test(file: str, test: str, distance: str) -> None:
    assert changed.ranked([file])[TESTS / test] == changed.DISTANCES.index(distance)


def test_far_tests_are_left_out() -> None:
    found = changed.ranked(["pydispatch/compiler/fusion/im2col.py"])
    assert TESTS / "vulkan" / "test_spirv_reader.py" not in found
    assert len(changed.ranked(["docs/index.md"])) == len(changed.CONVENTIONS) + len(changed.SMOKE)


def test_data_of_one_name_in_another_folder_is_not_near() -> None:
    assert TESTS / "formats" / "test_versions.py" not in changed.ranked(["tests/frontends/onnx/cases.npz"])


def test_the_nearest_folder_comes_first() -> None:
    found = list(changed.ranked(["pydispatch/frontends/onnx/operators/sampling.py"]))
    names = ("frontends/onnx/test_hostile.py", "frontends/stablehlo/test_elements.py", "llm/test_sampling.py")
    places = [found.index(TESTS / name) for name in names]
    assert places == sorted(places)


def test_the_first_tests_of_near_files_come_first() -> None:
    class Item:
        def __init__(self, path: Path, number: int) -> None:
            self.path, self.number = path, number

    near, also, far = Path("near"), Path("also"), Path("far")
    count = changed.FIRST + 2
    items = [Item(path, number) for path in (far, near, also) for number in range(count)]
    changed.Budget({near: 1, also: 1, far: 2}, 9).pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    order = [item.path for item in items]
    assert order == [*[near] * changed.FIRST, *[also] * changed.FIRST, near, near, also, also, *[far] * count]
