"""Match and replace: specs and patterns that rewrite a program before anything else is decided."""
