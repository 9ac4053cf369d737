"""The fixture of pydispatch for pytest-benchmark."""

pytest_plugins = ["pydispatch.bench.pytest_plugin"]
