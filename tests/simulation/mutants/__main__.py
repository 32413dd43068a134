"""`python -m tests.simulation.mutants`: see `mutants`."""

import sys

from tests.simulation.mutants.mutants import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
