"""The instruction language: schedules as data, text and CSV, passes and validators, lowering, the max-plus executor."""
