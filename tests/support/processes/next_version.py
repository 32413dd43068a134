"""Today's processes as a version that knows one feature level more.

`python -m tests.support.processes.next_version MODULE ...` runs the module like `python -m MODULE ...`. So a
roll from an older version to today's raises a level also where both know the same ones.
"""

import runpy
import sys

from tank_protos import feature_levels
from tests.support.processes import next_level


def main() -> None:
    """Runs a module of ours as `python -m` does, with the rest of the command line."""
    feature_levels.OWN = next_level.NEWER  # type: ignore[misc]  # before anything of ours has read it
    sys.argv = sys.argv[1:]
    with next_level.known():
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
