"""What is computed from constants alone → constants of its own, made once."""
