"""The `tank` command.

- `main`: the group, with its table of commands
- `shell`: what all commands share; `cluster`, `messages`, `files`, `serve`, `bench`,
  `iggy`: the commands
- `reference`, `configuration`: pages of docs made from the code
- `first_message`, `started`: the programs of Helm's tests and of startup probes
- `__main__`: `python -m tank_cli`
"""
