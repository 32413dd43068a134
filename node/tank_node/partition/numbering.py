"""Numbers with a special meaning in consume requests."""

FIRST_AVAILABLE = 0
"""Stands for the smallest number that can be read."""
END = 2**64 - 1
"""Stands for the number of the next message."""
