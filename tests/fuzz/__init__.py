"""Bad input by the million: seeds from the message definitions and the captures, mutated."""
