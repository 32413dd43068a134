"""Controllers that tests drive step by step, and substitutes for controllers."""
