"""Commands for topics and messages.

- `topic`, `status`, `connections`
- `produce`, `produce_input`, `produce_send`
- `consume`, `consume_plan`, `consume_cut`, `consume_shared`
"""
