"""Brokers killed under load: what was acknowledged must be there."""
