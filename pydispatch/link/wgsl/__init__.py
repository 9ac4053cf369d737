"""Functions of WGSL libraries → the shaders that call them."""
