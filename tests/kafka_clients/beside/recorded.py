"""What Kafka 4.1 answered to the scripts: recorded when it was there, for runs without it."""

import json
from pathlib import Path
from typing import Final

from tests.kafka_clients.beside.known import KNOWN
from tests.kafka_clients.beside.scripts import Notes

FILE: Final = Path(__file__).parent / "kafka_4_1.json"
SOMETIMES: Final = "if there is"
"""In a question that not every server is asked: which epochs there are differs."""
Record = dict[str, Notes]
"""By script."""


def load() -> Record:
    """The record."""
    found: Record = json.loads(FILE.read_text())
    return found


def save(record: Record) -> None:
    """Replaces what was recorded of these scripts."""
    whole = (load() if FILE.exists() else {}) | record
    FILE.write_text(json.dumps(whole, indent=1, sort_keys=False) + "\n")


def differences(script: str, kafka: Notes, ours: Notes, *, with_known: bool = False) -> list[str]:
    """Where the answers differ: a text for each place, but for those that are known."""
    known = {} if with_known else KNOWN.get(script, {})
    found = []
    for what in dict.fromkeys([*kafka, *ours]):
        theirs, mine = kafka.get(what), ours.get(what)
        if theirs == mine or what in known or (SOMETIMES in what and None in (theirs, mine)):
            continue
        found.append(f"{script}: {what}\n    Kafka: {theirs}\n    ours:  {mine}")
    return found


def unneeded(script: str, kafka: Notes, ours: Notes) -> list[str]:
    """Known differences of a script that are none."""
    return [
        f"{script}: {what}: it is no difference any more"
        for what in KNOWN.get(script, {})
        if kafka.get(what) == ours.get(what)
    ]
