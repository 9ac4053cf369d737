"""Functions of `math` in plain arithmetic, for f32, f64 and small floats."""
