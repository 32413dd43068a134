"""The cluster's state, and what each command of the log does to it. Pure.

- `state`, `model`, `keys`: the state and its parts
- `machine`: entries of the log in, outcomes and deltas out
- `commands`: the table of commands; one file for each subject:
  `topics`, `brokers`, `partitions`, `elections`, `reassignment`, `placement`, `assignments`, `groups`,
  `producers`, `levels`
- `changes`, `outcome`: what a command changed, and what is answered
- `codec`, `snapshot_image`, `topics_image`, `view_image`, `view_parts`: the state as bytes
"""
