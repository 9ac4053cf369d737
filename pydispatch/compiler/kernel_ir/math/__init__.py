"""Mathematical functions, conversions and remainders of floats, in plain arithmetic: each written once."""
