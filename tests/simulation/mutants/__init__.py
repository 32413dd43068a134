"""Mistakes made on purpose in the product's code, each with a story that must detect it."""
