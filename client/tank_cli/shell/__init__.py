"""What all commands share: options, output, errors, progress, completion.

- `lazy`, `session`, `connect`: commands, their shared options, their client
- `output`, `render`, `figures`, `progress`, `waiting`, `shapes`: output
- `failures`, `client_failures`, `exit_codes`, `interrupts`, `nearest`: errors, exit codes, Ctrl-C, advice
- `complete`, `completion`: TAB

Rooms:

- `brokers`: questions of several commands to brokers
"""
