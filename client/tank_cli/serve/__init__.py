"""`tank serve` and `tank demo`: a broker with its controller in one process.

- `command`, `process`, `local_controller`, `collector`: the process
- `demo`, `demo_broker`: the demonstration
"""
