"""python setup.py build_ext --inplace, where pydispatch is installed. Only headers are used; nothing is linked."""

from setuptools import Extension, setup

import pydispatch

setup(
    name="embedded",
    ext_modules=[
        Extension(
            "embedded",
            ["embedded.c"],
            include_dirs=[pydispatch.get_include()],
            extra_compile_args=["-std=c11", "-Wall", "-Wextra"],
            extra_link_args=["-pthread"],
        )
    ],
)
