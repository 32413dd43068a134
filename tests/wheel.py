"""Builds the wheel and uses it as a newcomer would: `make wheel`.

An empty environment, no compiler on the PATH, the wheel alone: `tank --help`, `tank serve`, a topic, one
message in and out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MESSAGE = "carried by the wheel"


def built_wheel(folder: Path) -> Path:
    """The wheel, built from the work tree; it must be pure Python and hold every package."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def empty_environment(folder: Path, wheel: Path) -> Path:
    """A virtual environment with the wheel and what it asks for; returns its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--only-binary", ":all:", str(wheel)],
        check=True,
    )  # fmt: skip
    return programs


def use(programs: Path, folder: Path) -> None:
    """Runs the command of the wheel: help, a broker, one message through it, an orderly end."""
    environment = {"PATH": f"{programs}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}

    def tank(*arguments: str, given: str = "") -> str:
        return subprocess.run(
            [programs / "tank", *arguments],
            env=environment, cwd=folder, input=given, capture_output=True, text=True, check=True, timeout=60,
        ).stdout  # fmt: skip

    assert "serve" in tank("--help")
    decoded = subprocess.run(
        [programs / "tank-protos", "decode", "0300000000"],
        env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert '"message": "Ping"' in decoded, decoded
    print(tank("--version").strip())
    port_file = folder / "serve.output"
    with open(port_file, "w") as output:
        broker = subprocess.Popen(
            [programs / "tank", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            env=environment, cwd=folder, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        environment["TANK_SERVERS"] = address_in(port_file, broker)
        tank("topic", "create", "first", "--partitions", "1")
        tank("produce", "first", given=MESSAGE + "\n")
        read = tank("consume", "first", "--from", "first", "--count", "1")
        assert MESSAGE in read, read
    finally:
        broker.terminate()
        code = broker.wait(15)
    assert code == 0, f"tank serve ended with {code}:\n{port_file.read_text()}"


def address_in(output: Path, broker: subprocess.Popen[bytes]) -> str:
    """The address that `tank serve` says it listens on."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and broker.poll() is None:
        for word in output.read_text().replace(",", " ").split():
            host, _, port = word.partition(":")
            if host == "127.0.0.1" and port.isdigit() and port != "0":
                return word
        time.sleep(0.05)
    raise SystemExit(f"tank serve does not say where it listens:\n{output.read_text()}")


def main() -> None:
    """Everything in a temporary folder; a failed step raises."""
    folder = Path(tempfile.mkdtemp(prefix="tank-wheel-"))
    try:
        wheel = built_wheel(folder)
        assert wheel.name.endswith("py3-none-any.whl"), wheel.name
        programs = empty_environment(folder / "environment", wheel)
        size = sum(f.stat().st_size for f in (folder / "environment/lib").rglob("*") if f.is_file())
        use(programs, folder)
        kib, mib = wheel.stat().st_size / 1024, size / 2**20
        print(f"{wheel.name}: {kib:,.0f} KiB, {mib:,.0f} MiB installed; it works")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.umask(0o022)
    main()
