"""What a controller does while it leads. No I/O.

- `brokers`, `streams`, `waiting_streams`, `whole_views`: brokers' streams, and the state on its way to them
- `registration`, `liveness`: whether a broker may register, and lives
- `broker_clocks`, `broker_rooms`: whether its clock is right, and its volume has room
- `raising`: the next feature level
- `term`, `tasks`, `balance`, `scaling`: one term as leader, and what is done in it without being asked
- `log_ends`, `commit_order`: questions before a lossy election; the order of committed positions
- `proposals`, `queries`: commands for the log, and answers from the state
- `checks`, `overview`, `report`: what an operator is warned of and shown
"""
