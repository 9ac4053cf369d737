"""PDL specs → matches and replacements."""
