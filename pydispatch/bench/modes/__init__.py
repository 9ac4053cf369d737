"""Ways to dispatch one operation, side by side: `out[i] = lhs[i] * rhs[i]`, 1,024 elements in a workgroup."""
