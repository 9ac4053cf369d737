"""Public errors carry the names under which users catch them."""

import pickle
import traceback

import pytest

import pydispatch as pd

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


def test_a_pickled_kernel_error_keeps_its_fields():
    error = pd.KernelError("failed", executable="e", export="f", workgroup=(1, 2, 3), code=7)
    again = pickle.loads(pickle.dumps(error))
    assert (again.executable, again.export, again.workgroup, again.code) == ("e", "f", (1, 2, 3), 7)
