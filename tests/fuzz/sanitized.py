"""`python -m tests.fuzz.sanitized ...`: the fuzzer over a compiled kernel that watches its own memory.

Builds the kernel with gcc's address and undefined-behaviour sanitizers into a folder of its own, and runs
`tests.fuzz.run` with the same arguments over it: a byte read beyond a buffer ends the run with a report.
Python's own allocator is switched off, because inside its arenas every read looks right.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("protos/tank_protos", "node/tank_node")
SANITIZERS: Final = "address,undefined"

# Cython looks for overflow by letting it happen in unsigned numbers only; function pointers of Python's type
# slots are cast, which is nobody's mistake.
_FLAGS: Final = f"-fsanitize={SANITIZERS} -fno-sanitize-recover=undefined -fno-omit-frame-pointer"


def libraries() -> list[str]:
    """The sanitizers' libraries that this machine's gcc has; empty when it has none."""
    found = []
    for name in ("libasan.so", "libubsan.so"):
        try:
            asked = subprocess.run(
                ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return []
        path = Path(asked.stdout.strip())
        if not path.is_absolute():
            return []
        found.append(str(path))
    return found


def build(folder: Path) -> None:
    """A copy of the packages with a sanitized kernel in them. Raises SystemExit when it cannot be built."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "protos/kernel_build.py"), "--twins", "--out", str(folder)],
        cwd=ROOT,
        env=os.environ | {"CC": "gcc", "CFLAGS": _FLAGS, "LDFLAGS": f"-fsanitize={SANITIZERS}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}\nthe kernel could not be built with {SANITIZERS}")
    for package in PACKAGES:
        source = ROOT / package
        shutil.copytree(
            source,
            folder / source.name,
            ignore=shutil.ignore_patterns("*.so", "__pycache__"),
            dirs_exist_ok=True,
        )


def environment(folder: Path, preload: list[str]) -> dict[str, str]:
    """In which a process runs the kernel that was built there."""
    return os.environ | {
        "LD_PRELOAD": " ".join(preload),
        # Python frees nothing at its end, so every object would be a leak.
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=16:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
        "PYTHONWARNINGS": "ignore::RuntimeWarning",
        # The twins: the node's modules are not built there, C that mypyc writes reads no buffer by itself.
        "TANK_KERNEL": "auto",
    }


def main() -> int:
    """Builds, runs, and gives the fuzzer's exit code."""
    preload = libraries()
    if not preload:
        print(
            "no sanitizers here: they come with gcc (libasan and libubsan); nothing was run", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="tank-sanitized-") as scratch:
        folder = Path(scratch)
        build(folder)
        command = [sys.executable, "-m", "tests.fuzz.run", *sys.argv[1:]]
        return subprocess.run(command, cwd=ROOT, env=environment(folder, preload), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
