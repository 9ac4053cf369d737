"""The same for GPUs: elements distributed over invocations."""
