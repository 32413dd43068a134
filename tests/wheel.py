"""Builds the wheel in both of its forms and uses each as a newcomer would: `make wheel`.

With the compiled kernel, where a C compiler works; without it (TANK_KERNEL_BUILD=off, `py3-none-any`); and
with a compiler that fails, which must say so and give the plain form. Each in empty environments, with no
compiler on the PATH: one has what servers need and runs `tank serve`; one has the client alone, which makes
a topic there, writes a message and reads it.
"""

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from zipfile import ZipFile

from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[1]
MESSAGE = "carried by the wheel"
PACKAGES = {
    "tank_node",
    "tank_controller",
    "tank_protos",
    "tank_compiler",
    "tank_client",
    "tank_cli",
    "pyspark_tank",
}


def built_wheel(folder: Path, **environment: str) -> tuple[Path, str]:
    """The wheel, built from the work tree with these variables, and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the wheel cannot be built:\n{done.stdout}")
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout


def compiled_modules(wheel: Path) -> list[str]:
    """The compiled modules that a wheel holds."""
    return [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]


def packages(wheel: Path) -> set[str]:
    """The folders and files that a wheel puts into site-packages, without what tells of the wheel itself."""
    found = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    return {name for name in found if not name.endswith(".dist-info")}


def kernel_files() -> set[str]:
    """What the kernel consists of: the twins, the node's hot modules, and the library with their code."""
    twins = {
        f"tank_protos/compiled/{p.stem}" for p in (ROOT / "protos/tank_protos/compiled").glob("[a-z]*.py")
    }
    node = {f"tank_node/compiled/tank_node/{module.replace('.', '/')}" for module in native_modules()}
    return twins | node | {"tank_node/compiled/kernel__mypyc"}


def native_modules() -> tuple[str, ...]:
    """The node's modules that are compiled."""
    return tuple(runpy.run_path(str(ROOT / "node/native_build.py"))["MODULES"])


def empty_environment(folder: Path, wheel: Path | None, extra: str = "") -> Path:
    """A virtual environment with the wheel and what it, or its extra, asks for; returns its folder of
    programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    if wheel is None:
        return programs
    subprocess.run(
        [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--only-binary", ":all:", f"{wheel}{extra}"],
        check=True,
    )  # fmt: skip
    return programs


def use(server: Path, client: Path, folder: Path, kernel: str) -> None:
    """Runs the wheel's command: help, a broker of one environment, one message through it by the other's
    client, an orderly end."""
    environment = {"HOME": str(folder), "LC_ALL": "C.UTF-8"}

    def run(programs: Path, name: str, *arguments: str, given: str = "") -> str:
        return subprocess.run(
            [programs / name, *arguments],
            env=environment | {"PATH": str(programs)}, cwd=folder, input=given, capture_output=True,
            text=True, check=True, timeout=patient(60),
        ).stdout  # fmt: skip

    for programs in (server, client):
        assert "serve" in run(programs, "tank", "--help")
        decoded = run(programs, "tank-protos", "decode", "0300000000")
        assert '"message": "Ping"' in decoded, decoded
        kafka = ("--protocol", "kafka", "--message", "HeartbeatResponse", "--version", "0", "001b")
        decoded = run(programs, "tank-protos", "decode", *kafka)
        assert '"ErrorCode": 27' in decoded, decoded
        said = run(programs, "tank", "--version")
        assert f"({kernel} kernel)" in said, said
    port_file = folder / "serve.output"
    with open(port_file, "w") as output:
        broker = subprocess.Popen(
            [server / "tank", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            env=environment | {"PATH": str(server)}, cwd=folder, stdout=output, stderr=output,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        environment["TANK_SERVERS"] = address_in(port_file, broker)
        run(client, "tank", "topic", "create", "first", "--partitions", "1")
        run(client, "tank", "produce", "first", given=MESSAGE + "\n")
        read = run(client, "tank", "consume", "first", "--from", "first", "--count", "1")
        assert MESSAGE in read, read
    finally:
        broker.terminate()
        code = broker.wait(15)
    assert code == 0, f"tank serve ended with {code}:\n{port_file.read_text()}"


def address_in(output: Path, broker: subprocess.Popen[bytes]) -> str:
    """The address that `tank serve` says it listens on."""
    deadline = time.monotonic() + patient(30)
    while time.monotonic() < deadline and broker.poll() is None:
        for word in output.read_text().replace(",", " ").split():
            host, _, port = word.partition(":")
            if host == "127.0.0.1" and port.isdigit() and port != "0":
                return word
        time.sleep(0.05)
    raise SystemExit(f"tank serve does not say where it listens:\n{output.read_text()}")


def try_one(folder: Path, wheel: Path, kernel: str) -> None:
    """Installs it, with what servers need and without, and uses both."""
    folder.mkdir()
    bare_mib = size_mib(empty_environment(folder / "bare", None))
    client = empty_environment(folder / "client", wheel)
    server = empty_environment(folder / "server", wheel, "[server]")
    use(server, client, folder, kernel)
    kib = wheel.stat().st_size / 1024
    print(
        f"{wheel.name}: {kib:,.0f} KiB; beside Python's own {bare_mib:,.0f} MiB the client takes "
        f"{size_mib(client) - bare_mib:,.0f} MiB, a server {size_mib(server) - bare_mib:,.0f} MiB; {kernel} "
        "kernel; it works",
        flush=True,
    )


def size_mib(programs: Path) -> float:
    """Of all files of an environment."""
    return sum(f.stat().st_size for f in (programs.parent / "lib").rglob("*") if f.is_file()) / 2**20


def main() -> None:
    """Everything in a temporary folder; a failed step raises."""
    folder = Path(tempfile.mkdtemp(prefix="tank-wheel-"))
    try:
        plain, _ = built_wheel(folder / "off", TANK_KERNEL_BUILD="off")
        broken, said = built_wheel(folder / "broken", TANK_KERNEL_BUILD="auto", CC="/bin/false")
        for wheel in (plain, broken):
            assert wheel.name.endswith("py3-none-any.whl"), wheel.name
            assert not compiled_modules(wheel), compiled_modules(wheel)
        assert "goes without its compiled kernel: the C compiler, Cython or mypyc failed" in said, said
        try_one(folder / "plain", plain, "pure")
        wheel, said = built_wheel(folder / "auto", TANK_KERNEL_BUILD="auto")
        for one in (plain, wheel):
            assert packages(one) == PACKAGES, packages(one)
        if compiled_modules(wheel):
            assert "none-any" not in wheel.name, wheel.name
            assert {name.partition(".")[0] for name in compiled_modules(wheel)} == kernel_files()
            try_one(folder / "compiled", wheel, "compiled")
        else:
            why = [line for line in said.splitlines() if "goes without its compiled kernel" in line]
            assert why, said
            print(f"not tried with the kernel. {why[0]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    os.umask(0o022)
    main()
