"""Tensor operations → groups that become one dispatch each."""
