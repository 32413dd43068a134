"""Users of Iggy's clients, as brokers, controllers and the command see them: names, secrets, rights. Pure.

- `rules`: what names, passwords and stored hashes must be
- `secret`: a value that no line of a log shows
- `tokens`: personal access tokens
- `permissions`: Iggy's document of a user's rights; `rights_text`: the same as text
"""
