"""One topic, three protocols at once (`make three`): each of three stock clients reads what all three wrote.

- `__main__`: the cluster, the clients, and the table of who read what
- `with_tank`, `with_kafka`, `with_iggy`: one program a client, to copy; each stands alone
"""
