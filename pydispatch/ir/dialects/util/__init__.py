"""The `util` dialect: functions, globals and scalars of host code."""
