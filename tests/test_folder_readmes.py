"""The READMEs of folders list every file, name files that exist, and are reached from the architecture."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from documents import ARCHITECTURE, FOLDER_READMES, ROOT

LISTED = re.compile(r"^(?:-|\d+\.) \[?`([\w./]+)`(?:\]\([\w/]+\.md\))?: \S", re.MULTILINE)
SEARCHED = ("pydispatch", "pydispatch/compiler", "csrc", "csrc/include")
NOT_LISTED = {"__init__.py", "__pycache__", "README.md", "py.typed"}


def entries(folder: Path) -> list[str]:
    """The files and folders of a source folder. Declarations beside `name.pyx` belong to it, generated ones to none."""
    found = [path for path in folder.iterdir() if path.name not in NOT_LISTED and path.suffix not in (".so", ".html")]
    found = [path for path in found if not re.fullmatch(r"c_\w+\.pxd", path.name)]
    modules = {path.stem for path in found if path.suffix == ".pyx"}
    own = (path for path in found if path.suffix not in (".pxd", ".pyi") or path.stem not in modules)
    return sorted(f"{path.name}/" if path.is_dir() else path.name for path in own)


@pytest.mark.parametrize("readme", FOLDER_READMES, ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_readmes_of_folders_list_every_file(readme: Path) -> None:
    text = readme.read_text()
    name = readme.relative_to(ROOT)
    heading = f"# `{name.parent.as_posix()}`\n"
    assert text.startswith(heading), f"{name} begins with {heading.strip()}"
    lines, there = Counter(LISTED.findall(text)), Counter(entries(readme.parent))
    missing, gone = sorted((there - lines).elements()), sorted((lines - there).elements())
    assert not missing, f"{name} lacks a line for {', '.join(missing)}: - `{missing[0]}`: what it is for."
    assert not gone, f"{name} has lines for {', '.join(gone)}, which the folder does not have, or twice; remove them"


def test_files_that_texts_about_folders_name_exist() -> None:
    """A file, such as `outline/form.py`, and what is named in it, such as `lower.py: lower`, is found."""
    for readme in [*FOLDER_READMES, ARCHITECTURE, ROOT / "docs" / "adding.md"]:
        for code in re.findall(r"`([^`\n]+)`", readme.read_text()):
            path, _, name = code.partition(": ")
            if not re.fullmatch(r"[\w./-]+\.(?:py|pyx|[ch])", path):
                continue
            folders = [*readme.parents, *(ROOT / name for name in SEARCHED)]
            files = [folder / path for folder in folders if (folder / path).is_file()]
            assert files, f"{readme.relative_to(ROOT)}: there is no {path}"
            source = files[0].read_text()
            assert not name or re.search(rf"\b{name.rpartition('.')[2]}\b", source), f"{path} has no {name}"


def test_every_readme_of_a_folder_is_reached_from_the_architecture() -> None:
    targets = re.findall(r"\]\(([^)#]+README\.md)\)", ARCHITECTURE.read_text())
    linked = {(ROOT / "docs" / target).resolve() for target in targets}
    for readme in FOLDER_READMES:
        assert any(folder / "README.md" in linked for folder in (readme.parent, *readme.parent.parents)), readme


def test_every_folder_of_tests_is_listed() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE)
    folders = [p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and not p.name.startswith(("_", "."))]
    missing, gone = sorted({*folders} - {*rows}), sorted({*rows} - {*folders})
    assert not missing, f"the table of tests/README.md lacks {', '.join(missing)}: | `{missing[0]}` | what it proves |"
    assert not gone, f"the table of tests/README.md has {', '.join(gone)}, which is no folder; remove the row"
