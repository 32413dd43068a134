"""Stock clients of Iggy's protocol against a broker of ours (`make iggy`): Python packages, each in an
environment of its own.

- `__main__`: installs the packages, and runs each one's walk against a fresh broker
- `programs/walk`: walks through what a package can do
- `table`: the table of docs/iggy-compatibility.md
"""
