"""The HTTP API's part for Iggy's clients: streams, their topics and groups, exposed topics, users.

- `operations`, `schemas`: the table of operations, and what their answers hold
- `directory`: looking names up; `shown`: what is found, as JSON
- `reads`, `changes`, `users`: what the operations do
"""
