"""What every frontend writes programs with: element types, sizes, tensors, and the builder of functions."""
