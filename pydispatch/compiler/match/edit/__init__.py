"""A match → the edited program: calls, symbols, clean-up."""
