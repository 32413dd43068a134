"""Iggy's clients in the simulated world, and what they are promised.

- `iggy_wire`: a client's connection; `iggy_visitor`: what all of them do
- `iggy_tenant`: makes, changes and removes streams, topics and groups
- `iggy_senders`, `iggy_scanners`: writers, and readers by offset
- `iggy_loners`: consumers that stand alone and store how far they came; `iggy_sharers`: members of groups
- `iggy_crowd`: all clients of a random story; `iggy_guest`: a client in a told one
- `iggy_ledger`: the books of it all; `iggy_marks`: stored offsets; `iggy_holders`: who polls a partition
"""
