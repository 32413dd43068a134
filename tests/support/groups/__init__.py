"""Shared by tests: consumer groups at a node."""
