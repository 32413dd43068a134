"""Conversations with clients and peers, one module a protocol; no I/O in here."""
