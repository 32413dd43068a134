"""Iggy's clients, as tests need them: they write and read bytes by code of their own."""
