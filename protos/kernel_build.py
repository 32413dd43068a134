"""Builds the compiled kernel: as a step of the wheel's build (a hook of hatchling's), and as a command.

    python protos/kernel_build.py             build beside the sources what is out of date; say what is there
    python protos/kernel_build.py --check     exit with 1 when what is there was built from other sources
    python protos/kernel_build.py --out DIR   build everything into DIR, as the wheel wants it
    python protos/kernel_build.py --auto      build in place as an install does it: TANK_KERNEL_BUILD decides
    ... --twins                               the same for the twins alone, without the node's modules

It has two parts: the twins of hot functions over buffers, in C by way of Cython, and the node's hot modules,
in C by way of mypyc (node/native_build.py). The kernel is optional. TANK_KERNEL_BUILD=auto (the default)
builds it where a C compiler works, and says why where none does; `off` leaves it out; `require` makes a
failure fatal.
"""

import argparse
import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# The folders of twins.
ROOMS = ("protos/tank_protos/compiled",)
# No -march: a wheel runs on other machines than the one that made it. No debug symbols: they are most of it.
COMPILE_ARGUMENTS = ["-O2", "-g0", "-Wno-unused-function"]
DIRECTIVES = {"language_level": 3, "binding": True, "embedsignature": False, "annotation_typing": True}

TWINS_ALONE = "the twins are compiled, the node's modules are not"


class Twin(NamedTuple):
    """A module to compile."""

    folder: Path
    name: str

    @property
    def module(self) -> str:
        """Its full name."""
        return ".".join((*self.folder.parts[-2:], self.name))


def _loaded(path: str) -> ModuleType:
    """A module of ours: its package may not be installed yet."""
    spec = importlib.util.spec_from_file_location(f"kernel_build_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


room = _loaded("protos/tank_protos/compiled/__init__.py")
"""It knows when what was compiled is out of date."""
native = _loaded("node/native_build.py")
"""The node's part."""


def twins() -> list[Twin]:
    """All that there are."""
    return [
        Twin(ROOT / folder, path.stem)
        for folder in ROOMS
        for path in sorted((ROOT / folder).glob("*.py"))
        if path.stem != "__init__"
    ]


def built_file(twin: Twin) -> Path:
    """Where its compiled module lies in a checkout, for the Python that runs this."""
    import sysconfig

    return twin.folder / (twin.name + str(sysconfig.get_config_var("EXT_SUFFIX")))


def stale(twin: Twin) -> bool:
    """Whether it has to be built, or built again."""
    built = built_file(twin)
    known = room.recorded(twin.folder).get(built.name)
    return not built.exists() or known != room.fingerprint(twin.folder, twin.name)


def compile_twins(chosen: list[Twin], out: Path, scratch: Path) -> None:
    """C from the sources, compiled modules from the C, below `out`. Raises what the tools raise."""
    if sys.byteorder != "little":
        raise RuntimeError("error: the kernel reads numbers as little-endian machines hold them")
    if sys.maxsize < 1 << 32:
        raise RuntimeError("error: the kernel counts bytes in 64 bits, and this Python has 32")
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extensions = [
        Extension(
            twin.module,
            [str(twin.folder.relative_to(ROOT) / f"{twin.name}.py")],
            include_dirs=[str(twin.folder)],
            extra_compile_args=COMPILE_ARGUMENTS,
        )
        for twin in chosen
    ]
    made = cythonize(
        extensions,
        build_dir=str(scratch),
        include_path=[str(ROOT / folder).rpartition("/tank_")[0] for folder in ROOMS],
        compiler_directives=DIRECTIVES,
        force=True,
        quiet=True,
    )
    command = build_ext(Distribution({"name": "tank-kernel", "ext_modules": made}))
    command.build_lib, command.build_temp = str(out), str(scratch)
    command.parallel, command.force = os.cpu_count() or 1, True
    command.ensure_finalized()
    command.run()


def build_in_place(*, only_twins: bool) -> list[str]:
    """Builds what is out of date where a checkout has it; the names of what was built."""
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build/kernel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # One by one, so that a mistake in one of them keeps none of those before it from being used.
        chosen = [twin for twin in twins() if stale(twin)]
        for twin in chosen:
            fingerprint = room.fingerprint(twin.folder, twin.name)
            with tempfile.TemporaryDirectory(prefix="tank-kernel-") as scratch:
                compile_twins([twin], Path(scratch, "out"), Path(scratch, "c"))
                _install(twin, Path(scratch, "out"), fingerprint)
        names = [twin.module for twin in chosen]
        if not only_twins and native.stale(room):
            print(f"compiling {len(native.MODULES)} modules of the node ...", flush=True)
            with tempfile.TemporaryDirectory(prefix="tank-kernel-") as scratch:
                try:
                    native.build_in_place(room, Path(scratch))
                except (Exception, SystemExit) as error:  # mypy has said what it refuses, and exits
                    raise SystemExit(
                        f"error: {TWINS_ALONE}: mypyc or the C compiler failed "
                        f"({type(error).__name__}: {error}). The node runs plain until `make kernel` succeeds"
                    ) from None
            names.append(f"{len(native.MODULES)} modules of tank_node")
    return names


def build_into(out: Path, *, only_twins: bool) -> None:
    """Builds everything, as a wheel has it below `out`. Takes object files of builds in place, and leaves the
    checkout as it is."""
    with tempfile.TemporaryDirectory(prefix="tank-kernel-") as scratch:
        compile_twins(twins(), out, Path(scratch, "twins"))
        if only_twins:
            return
        kept = Path(scratch, "kept")
        kept.mkdir()
        for made in native.OBJECTS.glob("*.o"):
            with contextlib.suppress(OSError):  # a build in place has removed it just now
                shutil.copyfile(made, kept / made.name)
        native.compile_modules(out, Path(scratch, "native"), kept)


def check() -> None:
    """Exits with 1 when twins are older than their sources. Of the node's modules it only says so: those are
    not used then."""
    if native.built() and (newer := native.stale(room)):
        print(
            f"the node runs plain: {len(newer)} of its sources are newer than its compiled modules; "
            "`make kernel` compiles them",
            file=sys.stderr,
        )
    old = [twin.module for twin in twins() if built_file(twin).exists() and stale(twin)]
    if old:
        raise SystemExit(f"compiled from older sources: {', '.join(old)}; run: make kernel")


def _install(twin: Twin, out: Path, fingerprint: int) -> None:
    """Takes the old one's place at one stroke: processes that run it keep it."""
    target = built_file(twin)
    fresh = target.with_name(f".{target.name}.new")
    shutil.copyfile(out.joinpath(*twin.module.split(".")).with_name(target.name), fresh)
    os.replace(fresh, target)
    known = room.recorded(twin.folder) | {target.name: fingerprint}
    file = twin.folder / room.BUILT
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    os.replace(fresh, file)


def why(output: str) -> str:
    """What kept the kernel from being built, in a line, out of what the tools printed."""
    if "Python.h" in output:
        return "Python's headers are missing (Debian, Ubuntu: apt-get install python3-dev)"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "error: " in line] or lines[-1:] or ["nothing was said"]
    reason = telling[0] if len(telling[0]) < 160 else f"{telling[0][:160]}..."
    return f"the C compiler, Cython or mypyc failed ({reason})"


def attempt(arguments: list[str]) -> str:
    """Runs this file with these arguments in a process of its own; "" or why it failed.

    TANK_KERNEL_BUILD=require: exits instead.
    """
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if mode() == "require":
        raise SystemExit(
            f"{done.stdout}{done.stderr}\nTANK_KERNEL_BUILD=require, and the kernel fails to build"
        )
    reason = why(done.stdout + done.stderr)
    missing = "its compiled node" if TWINS_ALONE in done.stderr else "its compiled kernel"
    print(f"Tank Cluster goes without {missing}: {reason}. All works, in plain Python.", file=sys.stderr)
    return reason


def mode() -> str:
    """TANK_KERNEL_BUILD, checked."""
    chosen = os.environ.get("TANK_KERNEL_BUILD") or "auto"
    if chosen not in ("auto", "off", "require"):
        raise SystemExit(f"TANK_KERNEL_BUILD={chosen!r}: use 'auto', 'off' or 'require'")
    return chosen


def hook_class() -> Any:
    """The class that hatchling calls; only its builds have hatchling."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
        """Adds the compiled modules to a wheel, or builds them in place for an editable install."""

        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Before the files are gathered."""
            if self.target_name == "wheel" and version != "editable":
                # What `tank-protos decode` reads; beside the sources it finds the folder itself.
                for protocol in ("tank", "kafka"):
                    inside = f"tank_compiler/definitions/{protocol}"
                    build_data["force_include"][f"protos/{protocol}"] = inside
            if self.target_name != "wheel" or mode() == "off":
                return
            if version == "editable":
                attempt([])
                return
            self._out = tempfile.mkdtemp(prefix="tank-kernel-")
            if attempt(["--out", self._out]):
                return
            built = sorted(path for path in Path(self._out).rglob("*") if path.is_file())
            build_data["force_include"] |= {str(p): str(p.relative_to(self._out)) for p in built}
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """After the wheel was written."""
            shutil.rmtree(getattr(self, "_out", ""), ignore_errors=True)

    return KernelBuildHook


def get_build_hook() -> Any:
    """What hatchling asks for."""
    return hook_class()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether what is there is up to date")
    parser.add_argument("--out", type=Path, help="build everything into this folder")
    parser.add_argument("--auto", action="store_true", help="build as an install does: where it can be built")
    parser.add_argument("--twins", action="store_true", help="leave the node's modules out")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.out is not None:
        build_into(arguments.out.resolve(), only_twins=arguments.twins)
        return
    if arguments.check:
        check()
        return
    if arguments.auto:
        if mode() != "off":
            attempt([])
        return
    try:
        built = build_in_place(only_twins=arguments.twins)
    except Exception as error:  # the tools raise what they like; a compiler has said on stderr what is wrong
        raise SystemExit(
            f"error: the compiled kernel was not built ({type(error).__name__}: {error}). It needs a C "
            "compiler, Python's headers, Cython and mypy; without it all works, in plain Python"
        ) from None
    print(f"compiled kernel: built {', '.join(built)}" if built else "compiled kernel: up to date")


if __name__ == "__main__":
    main()
