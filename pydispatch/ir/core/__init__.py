"""Text → verified program: lexer, parser, verifier, source locations and the syntax that dialects share."""
