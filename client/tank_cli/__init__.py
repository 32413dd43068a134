"""The `tank` command.

- `main`: the group, with its table of commands
- `shell`: what all commands share; `cluster`, `messages`, `files`, `serve`, `bench`: the commands
- `reference`, `configuration`: pages of docs made from the code
- `first_message`, `started`: programs for Helm's tests and for probes
- `__main__`: `python -m tank_cli`
"""
