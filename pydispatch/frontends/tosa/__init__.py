"""Programs in the TOSA dialect, as torch-mlir and converters of TensorFlow Lite write them."""
