"""The stream of Iggy's client in a run, and its user: what the program and those that start it both know."""

from typing import Final

STREAM: Final = "chaos"
TOPIC: Final = "iggy"
PLACED: Final = f"{STREAM}.{TOPIC}"
"""The topic's name for clients of TANK and Kafka."""
PARTITIONS: Final = 2
ROOT_VARIABLE: Final = "IGGY_ROOT"
"""The environment variable with the user, as NAME:PASSWORD."""
