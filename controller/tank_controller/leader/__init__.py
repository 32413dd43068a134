"""What a controller does while it leads. No I/O.

- `raising`, `held_names`: the next feature level, and the names of groups that it waits for
- `leadership`, `tasks`, `balance`, `scaling`: when the controller leads, and its own tasks then
- `going_streams`: large streams that are being deleted
- `log_ends`, `commit_order`: questions before a lossy election; the order of committed positions
- `proposals`: commands for the log

Rooms:

- `brokers`: brokers' streams, lives, clocks and volumes
- `reports`: what an operator is shown, and warned of
"""
