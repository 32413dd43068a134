"""What commands about the names of Iggy's clients do to the cluster's state. Pure.

- `streams`: create, rename, delete; `new_streams`: the creation, which exposing a topic needs, too
- `iggy_topics`: create and alter topics with their Iggy part; `purging`: purge and shrink them
- `exposing`: topics of other protocols that Iggy's clients see
- `iggy_groups`: create and delete groups
- `users`, `tokens`: users of Iggy's clients, and their personal access tokens
- `derived`: a topic's settings, by what an Iggy client said; `iggy_checks`: checks that all share;
  `leaving`: a topic that is no longer in its stream
"""
