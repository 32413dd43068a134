"""Runs in the clients' pod: reads everything back, and holds it against what the clients were told.

`python -m e2e.support.verdict SERVERS FOLDER TOPIC ...` prints one JSON document: violations, how much there
was, and how long each write waited.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from e2e.support.figures import waits
from tank_client.sync import Client
from tests.chaos.checker import violations
from tests.chaos.record import read
from tests.chaos.run import read_all


def main(servers: str, folder: Path, topics: list[str]) -> None:
    """See the module."""
    history = read(sorted(folder.glob("*.jsonl")))
    with Client(servers) as client:
        log = read_all(client, topics)
    fates = Counter(sent.fate.value for sent in history.sent.values())
    found = {
        "violations": violations(history, log),
        "fates": fates,
        "messages": sum(map(len, log.values())),
        "seen": sum(len(messages) for places in history.seen.values() for messages in places.values()),
        "waits": waits(history),
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
