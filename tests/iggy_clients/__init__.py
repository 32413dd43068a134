"""Stock clients of Iggy's protocol against a broker of ours (`make iggy`): Python packages, each in an
environment of its own.

- `__main__`: installs the packages, and runs each one's walk against a fresh broker
- `programs/walk`: walks through what a package can do; `programs/steady`: sends all the time
- `failover`: how long a client waits when a leader is killed
- `announced/`: announces Iggy's feature level in processes of tests
- `table`: the table of docs/iggy-compatibility.md
"""
