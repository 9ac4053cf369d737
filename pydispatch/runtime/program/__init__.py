"""An artifact and a device → a loaded program."""
