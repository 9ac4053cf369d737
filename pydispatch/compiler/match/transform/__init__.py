"""Transform-dialect specs → matches and replacements."""
