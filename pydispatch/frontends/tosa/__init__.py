"""Frontend for the TOSA dialect, to which torch-mlir and converters of TensorFlow Lite lower."""
