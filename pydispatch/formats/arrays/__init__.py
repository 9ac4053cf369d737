"""Files of arrays and element types that NumPy lacks."""
