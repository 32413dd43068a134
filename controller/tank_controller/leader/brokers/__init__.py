"""What the controller that leads knows of brokers, and tells them.

- `brokers`, `streams`, `waiting_streams`: brokers' streams, and those that wait for an election
- `registration`, `requests`, `deltas`: what the streams are for, a file a subject
- `liveness`: whether a broker lives
- `clocks`, `volumes`: whether its clock is right, and its volume has room
"""
