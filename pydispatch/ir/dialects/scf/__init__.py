"""The `scf` dialect: the library's with `scf.forall`, and with the syntax and checks that it lacks."""
