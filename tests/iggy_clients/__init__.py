"""Stock clients of Iggy's protocol against a broker of ours (`make iggy`): Python's packages and Java's
from their registries, and the frames of clients that are in none.

- `__main__`: installs the clients, and runs each one's walk against a fresh broker
- `clients`: all clients, and why others are not among them
- `package`: where the newest Python client is, for other runs
- `stock_client`: one client: how it is installed, and how its walk is run
- `programs/`: the walks: `walk` of Python's packages, `java/`, `frames`
- `programs/steady`: sends all the time; `failover`: how long it waits when a leader is killed
- `frames/`: the frames of clients that are in no registry, which `frames` plays
- `table`: the tables of docs/iggy-compatibility.md
"""
