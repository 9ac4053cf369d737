"""The CHLO dialect: functions that StableHLO lacks, and operations that broadcast their operands."""
