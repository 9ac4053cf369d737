"""What targets are and can do: names, architectures, CPU levels; which ones a program is compiled for."""
