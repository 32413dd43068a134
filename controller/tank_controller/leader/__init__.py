"""What a controller does while it leads. No I/O.

- `brokers`, `streams`, `waiting_streams`: brokers' streams, and those that wait for an election
- `registration`, `requests`, `deltas`: what the streams are for, a file a subject
- `liveness`: whether a broker lives
- `broker_clocks`, `broker_rooms`: whether its clock is right, and its volume has room
- `raising`, `held_names`: the next feature level, and the names of groups that it waits for
- `leadership`, `tasks`, `balance`, `scaling`: when the controller leads, and its own tasks then
- `going_streams`: large streams that are being deleted
- `log_ends`, `commit_order`: questions before a lossy election; the order of committed positions
- `proposals`: commands for the log
- `checks`, `overview`, `iggy_names`, `report`: what an operator is warned of and shown
"""
