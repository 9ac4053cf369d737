"""Common layer of accelerators: devices that execute plans with executors of their own.

The layer covers everything between a call in Python and the commands of a plan over blocks of device memory. A device
supplies a `Context`, an `Executor`, a `Dialect` and an `AcceleratorDevice`.
"""
