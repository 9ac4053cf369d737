"""The TOSA dialect: tensors of neural networks, floats and quantized integers."""
