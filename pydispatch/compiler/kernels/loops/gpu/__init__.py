"""The same for GPUs: elements spread over invocations."""
