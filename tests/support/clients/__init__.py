"""Clients that tests drive step by step, and brokers that follow a script."""
