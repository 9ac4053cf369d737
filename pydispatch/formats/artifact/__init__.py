"""The artifact file (`.pdx`) and its manifest: readers and writers."""
