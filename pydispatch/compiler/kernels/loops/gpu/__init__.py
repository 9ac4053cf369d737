"""The same for GPUs: points spread over invocations."""
