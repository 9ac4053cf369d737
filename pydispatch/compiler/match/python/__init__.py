"""Python patterns → matches and replacements."""
