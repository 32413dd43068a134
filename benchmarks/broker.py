"""Our broker beside the C ceiling, the same loads on each in turn: `make bench`.

The load generator and the ceiling come from the folder `../shared/bench` beside the repository and are
built in `out/bench`. The ceiling does the least a broker can do (append, 64-byte index record, CRC-32C), so
the column "of first" says how far ours is from what the machine allows.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "bench"
BUILT = ROOT / "out" / "bench"
CASES = (
    r"produce (64Kx1 8 conns x 8|100x10 8 conns x 64|100x1 64 conns x 1|100x1 8 conns x 64)|consume 1M bytes"
)
CEILING = f"{BUILT}/tankceil --keep 128 -p {{port}} -d {{dir}}"
OURS = (
    f"{sys.executable} -m tank_cli.main serve"
    " --listen 127.0.0.1:{port} --http 127.0.0.1:0 --data {dir} --log-level error"
)


def build() -> None:
    """Builds the load generator and the ceiling. SystemExit says what is missing."""
    if not SHARED.is_dir():
        raise SystemExit(
            f"There is no load generator: {SHARED.relative_to(ROOT.parent)} beside the repository is missing."
        )
    if shutil.which("cc") is None or shutil.which("make") is None:
        raise SystemExit("The load generator is C: install a C compiler and make, then try again.")
    BUILT.mkdir(parents=True, exist_ok=True)
    for source in SHARED.iterdir():
        if source.is_file():
            shutil.copy(source, BUILT / source.name)
            (BUILT / source.name).chmod(0o755)
    subprocess.run(["make", "-s", "-C", str(BUILT)], check=True)


def main() -> None:
    """Prints the table of medians; the exit code is that of the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each case runs on each broker")
    parser.add_argument("--cases", default=CASES, help="a regular expression; '' runs all of them")
    parser.add_argument("--seconds", type=float, default=1.5, help="measured in each run")
    options = parser.parse_args()
    build()
    command = [
        sys.executable, str(BUILT / "compare.py"),
        "--server", f"ceiling={CEILING}", "--server", f"ours={OURS}",
        "--cases", options.cases, "--rounds", str(options.rounds), "--seconds", str(options.seconds),
    ]  # fmt: skip
    raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
