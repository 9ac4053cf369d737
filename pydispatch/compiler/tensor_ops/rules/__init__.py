"""The rules of the operations that the compiler knows by itself; each file ends with the list `RULES`."""
