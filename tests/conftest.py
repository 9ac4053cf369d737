"""What all tests share: tools beside the interpreter are found, and nothing is skipped in silence.

PYDISPATCH_TEST_CPU=x86-64-v2, or another level: what tests compile for the generic CPU is compiled for that one.

A test may be skipped for a fact about the machine (REASONS). A missing tool is no such fact: `make test` brings every
tool, so a skip for any other reason fails the run and is listed at its end.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import kept_objects
import pytest
import samples

from pydispatch.compiler.toolchain.programs import zig_environment

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it puts into the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("PYDISPATCH_CHECK", "poison")  # an element that no kernel wrote is a NaN, in every test

os.environ.setdefault("PYDISPATCH_CPU", "generic")  # one variant per program; tests/e2e/test_default_cpus.py has two

REASONS = re.compile(r"this machine|the system has no|this container|x86[-_]64")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes that tests start would compile every module again

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have their controller's cache
    CACHE = tempfile.TemporaryDirectory(prefix="pydispatch-tests-")
    os.environ["PYDISPATCH_CACHE_DIR"] = CACHE.name
    if "PYDISPATCH_MUTANT" not in os.environ:  # a compiler with a fault would leave wrong objects
        kept_objects.link(Path(CACHE.name))
    os.environ.update(zig_environment())  # tests call zig themselves

LEVEL = os.environ.get("PYDISPATCH_TEST_CPU", "")
if LEVEL:
    import machine_levels

    import pydispatch as pd

    if not machine_levels.runs(LEVEL):
        sys.exit(f"PYDISPATCH_TEST_CPU={LEVEL}: this machine does not run it")
    compile_ = pd.compile

    def compile_for_level(source: Any, *args: Any, **options: Any) -> Any:
        if options.get("cpu") in (None, "generic"):
            options["cpu"] = LEVEL
        return compile_(source, *args, **options)

    pd.compile = compile_for_level  # type: ignore[assignment]

skipped: dict[str, int] = {}


@pytest.hookimpl(tryfirst=True)  # Hypothesis reads its options then
def pytest_configure(config: pytest.Config) -> None:
    samples.configure(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    samples.choose(config, items)
    gc.collect()
    gc.freeze()  # what collection has made stays: no later collection has to walk it


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude what the tests of a file leave from later collections, each of which would walk all of it again."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[reason] = skipped.get(reason, 0) + 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(samples.header())
    for reason, count in sorted(skipped.items()):
        allowed = "" if REASONS.search(reason) else "  (fails the run: a tool is missing)"
        terminalreporter.write_line(f"not run, {count} tests: {reason}{allowed}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == 0 and any(not REASONS.search(reason) for reason in skipped):
        session.exitstatus = 1
