"""Generated code. Written by `make proto`; never edited by hand."""
