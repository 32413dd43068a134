"""Measurements: two things run in turn, and their ratio."""
