"""What each command of the Raft log does to the cluster's state. Pure.

- `machine`: entries of the log in, outcomes and deltas out
- `commands`: the table of commands; one file for each subject:
  `topics`, `topic_checks`, `topic_partitions`, `brokers`, `partitions`, `elections`, `reassignment`,
  `assignments`, `groups`, `producers`, `levels`; `iggy`: the names of Iggy's clients
- `changes`, `outcome`: what a command changed, and what is answered
"""
