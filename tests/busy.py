"""`make test-busy`: everything beside four processes that take all the processor that they get.

Tests must end green on a machine that is busy with other work, however long they take then.
"""

import os
import subprocess
import sys
from typing import Final

from tests.chaos.hogs import hogs
from tests.support.patience import VARIABLE

HOGS: Final = 4


def main(command: list[str]) -> int:
    """The exit code of the command, or of `make test`."""
    environment = {VARIABLE: "4", **os.environ}
    with hogs(HOGS):
        return subprocess.call(command or ["make", "test"], env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
