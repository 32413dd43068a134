"""The `tank` command."""
