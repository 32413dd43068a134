"""`tank iggy`: the names of Iggy's clients, which the controllers keep, and who these clients are.

- `commands`: the tables of commands
- `streams`, `topics`, `topic_changes`, `groups`, `exposing`: the commands
- `user`, `token`: users, and their personal access tokens; `passwords`: where a password comes from;
  `rights`: permissions as text
- `iggy_names`: what the controllers know, and looking names up in it
"""
