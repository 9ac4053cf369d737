"""Public errors carry the names under which users catch them."""

import pickle
import traceback

import pytest

import pydispatch as pd
from pydispatch import files
from pydispatch.compiler.toolchain.linker import UndefinedSymbolsError
from pydispatch.compiler.worker.process import Died
from pydispatch.errors import SystemError_

PUBLIC = sorted(
    name
    for name in pd.__all__
    if isinstance(getattr(pd, name), type) and issubclass(getattr(pd, name), (pd.Error, pd.CompileWarning))
)


def test_every_class_of_errors_is_public():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind.__name__ for kind in below(pd.Error) if kind.__module__ == "pydispatch"}
    assert ours == set(PUBLIC) - {"CompileWarning"}
    assert "KernelError" in PUBLIC and len(PUBLIC) >= 12


@pytest.mark.parametrize("name", PUBLIC)
def test_tracebacks_name_the_public_class(name):
    kind = getattr(pd, name)
    assert traceback.format_exception_only(kind, kind("text"))[-1].startswith(f"pydispatch.{name}: ")


@pytest.mark.parametrize("name", PUBLIC)
def test_errors_survive_a_pickle(name):
    kind = getattr(pd, name)
    again = pickle.loads(pickle.dumps(kind("text")))
    assert type(again) is kind and str(again) == str(kind("text"))


def test_errors_of_the_system_survive_a_pickle(tmp_path):
    """Their class has a name in pydispatch.errors alone."""
    with pytest.raises(SystemError_) as caught:
        files.read(tmp_path / "missing")
    for error in (SystemError_("text"), SystemError_(28, "cannot write x: no space", "x"), caught.value):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is SystemError_ and str(again) == str(error) and again.errno == error.errno
    assert traceback.format_exception_only(error)[-1].startswith("pydispatch.errors.SystemError_: cannot read")


def test_a_pickled_link_error_keeps_its_fields():
    error = UndefinedSymbolsError([("f", "a.o")], ["ld.lld", "a.o"], "undefined symbol: f")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.undefined == (("f", "a.o"),) and again.command == ("ld.lld", "a.o")


def test_a_pickled_end_of_llvm_keeps_its_fields():
    error = Died("SIGABRT", "LLVM ERROR: no such pass")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is Died and str(again) == str(error) and (again.how, again.said) == (error.how, error.said)


def test_a_pickled_kernel_error_keeps_its_fields():
    error = pd.KernelError("failed", executable="e", export="f", workgroup=(1, 2, 3), code=7)
    again = pickle.loads(pickle.dumps(error))
    assert (again.executable, again.export, again.workgroup, again.code) == ("e", "f", (1, 2, 3), 7)
