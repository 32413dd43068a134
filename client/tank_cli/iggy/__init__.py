"""`tank iggy`: the names of Iggy's clients, which the controllers keep.

- `commands`: the tables of commands
- `streams`, `topics`, `groups`, `exposing`: the commands
- `iggy_names`: what the controllers know, and looking names up in it
"""
