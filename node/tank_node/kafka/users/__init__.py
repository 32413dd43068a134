"""Requests about users, their rights and limits: of these there are none, and the answers say so.

- `sasl`: logging in; `acls`: rights
- `describe_client_quotas`, `describe_user_scram_credentials`: limits and passwords
"""
