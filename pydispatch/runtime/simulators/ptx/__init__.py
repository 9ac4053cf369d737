"""An interpreter of PTX, exact and vectorised over threads with NumPy."""
