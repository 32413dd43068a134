"""Brokers in this process: one, or several that are connected by hand."""
