"""Real controllers and brokers under faults and load: `make chaos`."""
