"""Logs and disks for tests, with their faults."""
