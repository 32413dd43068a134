"""`python -m tests.kafka_clients.beside`: plays the scripts to real Kafka 4.1 and to a broker of ours, and
prints where the answers differ. `--record` keeps Kafka's answers in the record.

Exit code 1 when something differs that is not known."""

import argparse
import sys
from pathlib import Path

from tests.kafka_clients.beside import kafka_server
from tests.kafka_clients.beside.recorded import save
from tests.kafka_clients.beside.side_by_side import both, compared
from tests.kafka_clients.libraries import ROOT

FOLDER = ROOT / "out" / "kafka_clients"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients.beside", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where Kafka's jars are installed")
    parser.add_argument("--script", default="", help="those alone whose names begin so")
    parser.add_argument("--record", action="store_true", help="keep Kafka's answers in the record")
    parser.add_argument("--recorded", action="store_true", help="don't start Kafka: compare with the record")
    parser.add_argument("--all", action="store_true", help="print known differences, too")
    chosen = parser.parse_args()
    folder: Path | None = None
    if not chosen.recorded:
        folder = chosen.folder
        folder.mkdir(parents=True, exist_ok=True)
        kafka_server.install(folder)
    theirs, ours = both(folder, chosen.script, lambda line: print(line, flush=True))
    if chosen.record:
        save(theirs)
    found = [each for _, all_of_it in compared(theirs, ours, with_known=chosen.all) for each in all_of_it]
    left_out = [
        f"left out: {script}: our broker has no such requests" for script in theirs if script not in ours
    ]
    print("\n".join([*left_out, *found, f"{len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
