"""Transform-dialect specs: matching and replacement."""
