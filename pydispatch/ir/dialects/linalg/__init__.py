"""The `linalg` dialect: generic and named structured operations."""
