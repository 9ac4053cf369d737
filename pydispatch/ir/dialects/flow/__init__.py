"""The `flow` dialect: dispatches and operations on whole tensors."""
