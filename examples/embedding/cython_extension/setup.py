"""python setup.py build_ext --inplace, where pydispatch and Cython are installed."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import pydispatch

setup(
    name="embedded_cy",
    ext_modules=cythonize(
        [Extension("embedded_cy", ["embedded_cy.pyx"], include_dirs=[pydispatch.get_include()])],
        include_path=[pydispatch.get_cython_include()],
    ),
)
