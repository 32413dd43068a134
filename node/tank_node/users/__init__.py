"""Users of Iggy's clients: logins, and what each may do.

- `logins`: by name and password, or by a token; whether a session's login still holds
- `root_wait`: logins before there are users
- `reachable_logins`: those by a listener that isn't on loopback
- `password_threads`, `argon2_hasher`: hashes of passwords, in threads
- `failure_delays`, `recent_logins`: logins that failed, and those that need not be checked again
- `authorizer`, `rights`: what a user may do, by Iggy's documents of permissions
- `limits`: the bounds of all this
- `root_founder`, `root_credentials`: the first user of a new cluster
"""
