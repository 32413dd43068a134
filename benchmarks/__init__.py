"""Benchmarks: each runs our code and a reference in turn, and compares them."""
