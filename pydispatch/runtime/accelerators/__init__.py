"""What devices that run plans by themselves have in common: everything between a call in Python and the commands of a
plan over blocks of device memory. A device gives a `Context`, an `Executor`, a `Dialect` and a `AcceleratorDevice`."""
