"""Commands for topics and messages.

- `topic`, `status`, `connections`; `iggy_eras`: Iggy's clients for `status`
- `produce`, `produce_input`, `produce_send`
- `consume`, `consume_plan`, `consume_cut`, `consume_shared`
"""
