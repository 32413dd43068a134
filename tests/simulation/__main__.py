"""The simulator's command line: runs many seeds, or one seed again with its trace."""

import argparse
import os
import sys

from tests.simulation import runner
from tests.simulation.story import Kind, tell


def main(arguments: list[str]) -> int:
    """0 when every invariant held."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Runs the real controllers and brokers in a simulated world full of faults, and checks "
        "after every event what is promised. The same seed gives the same story.",
    )
    parser.add_argument(
        "--seeds", type=int, default=50, metavar="N", help="run N seeds (default: %(default)s)"
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first of them (default: 0)")
    parser.add_argument("--seed", type=int, metavar="N", help="run this one alone, and show what happened")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one a processor"
    )
    parser.add_argument("--lines", type=int, default=400, metavar="N", help="of one seed's trace, at the end")
    parser.add_argument("--until-failure", action="store_true", help="end with the first seed that fails")
    kinds = [kind.value for kind in Kind]
    parser.add_argument("--kind", choices=kinds, default=Kind.ANY.value, help="which stories (default: any)")
    options = parser.parse_args(arguments)
    kind = Kind(options.kind)
    if options.until_failure:
        return 1 if runner.until_failure(options.first, options.seeds, kind) else 0
    if options.seed is None:
        return 1 if runner.run(options.first, options.seeds, options.processes, kind=kind) else 0
    told = tell(options.seed, -options.lines)
    for line in told.trace:
        print(line)
    ending = f"FAILED: {told.failure}" if told.failure else "every invariant held"
    print(f"seed {told.seed}: {told.events:,} events, {told.seconds:.1f} s of virtual time; {ending}")
    return 1 if told.failure else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
