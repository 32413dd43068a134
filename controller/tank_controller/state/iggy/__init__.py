"""The names of Iggy's clients in the cluster's state: streams, their topics, groups. Pure.

- `stream_state`, `iggy_part`, `iggy_option`, `iggy_group`: the parts
- `maker`: what a repeated command is known by
- `iggy_state`: all of them, by number and by name
- `iggy_codec`: the parts as messages
- `users`, `users_codec`: the users of Iggy's clients, and they as messages
"""
