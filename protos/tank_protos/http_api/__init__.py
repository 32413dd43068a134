"""What the HTTP APIs of controllers and brokers share. Each of them has its own table of operations.

- `operations`, `fields`: an operation as data, and what it takes
- `document`: OpenAPI, made of a table of operations
- `service`: runs a request's operation, within limits on sizes and times
- `access`, `token`: which requests are allowed, and the token
- `errors`: the answers to refused requests
"""
