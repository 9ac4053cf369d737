"""A program → an artifact."""
