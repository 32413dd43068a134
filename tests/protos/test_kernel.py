"""The choice between the compiled kernel and plain Python, and how an outdated one is found out."""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from fastcrc.crc32 import iscsi

from tank_protos import bundle, compiled, kernel
from tank_protos.bundle import header
from tests.support import kernels

ROOT = Path(__file__).resolve().parents[2]
built = pytest.mark.skipif(kernel.NAME == "pure", reason="no compiled kernel")


def told(
    mode: str,
    code: str = "import tank_protos.bundle; print(tank_protos.kernel.NAME)",
    room: Path = ROOT / "protos",
    warnings: str = "default",
) -> str:
    """What a fresh process prints, or the last line of its error."""
    environment = {**os.environ, "TANK_KERNEL": mode, "PYTHONPATH": str(room)}
    command = [sys.executable, "-W", warnings, "-c", f"import tank_protos.kernel; {code}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_the_environment_chooses() -> None:
    assert told("pure") == "pure"
    assert told("pure", "print(tank_protos.kernel.PAIRS)") == "[]"
    assert "use 'auto', 'pure' or 'compiled'" in told("fast")


@built
def test_the_compiled_kernel_is_taken_where_it_is() -> None:
    assert told("auto") == told("compiled") == told("") == "compiled"


def test_a_missing_kernel_is_no_error_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MODE", "auto")
    assert kernel.load("tank_protos.compiled.nobody") is None
    monkeypatch.setattr(kernel, "MODE", "compiled")
    with pytest.raises(ImportError, match="make kernel"):
        kernel.load("tank_protos.compiled.nobody")
    # A source is not taken for a compiled module, whether or not Cython is installed.
    with pytest.raises(ImportError, match="was not compiled"):
        kernel.load("tank_protos.compiled")


@built
def test_tests_can_change_the_kernel() -> None:
    try:
        kernels.use("pure")
        assert told_validate() == "function"
        kernels.use("compiled")
        assert told_validate() == "cython_function_or_method"
    finally:
        kernels.use("compiled")


def told_validate() -> str:
    assert bundle.validate is header.validate
    return type(bundle.validate).__name__


SUFFIX = ".cpython-311.so"


def test_a_twin_is_out_of_date_when_its_source_or_a_header_that_it_names_changed(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "one.py").write_text("from cython.cimports.shapes import x")
    (tmp_path / "shapes.pxd").write_text('cdef extern from "deep.h": pass')
    (tmp_path / "deep.h").write_text("int x;")
    (tmp_path / "other.h").write_text("int y;")
    (tmp_path / f"one{SUFFIX}").touch()

    def record() -> None:
        made = {f"one{SUFFIX}": compiled.fingerprint(tmp_path, "one")}
        (tmp_path / compiled.BUILT).write_text(json.dumps(made))
        assert compiled.outdated(tmp_path, SUFFIX) == []

    for name in ("one.py", "shapes.pxd", "deep.h"):
        record()
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
        assert compiled.outdated(tmp_path, SUFFIX) == ["one"], name
        # Nothing is known of what another Python built.
        assert compiled.outdated(tmp_path, ".cpython-312.so") == []
    record()
    (tmp_path / "other.h").write_text("int z;")
    assert compiled.outdated(tmp_path, SUFFIX) == []
    (tmp_path / "new.py").touch()
    assert compiled.outdated(tmp_path, SUFFIX) == ["new"], "it was never compiled"
    (tmp_path / "new.py").unlink()
    (tmp_path / f"one{SUFFIX}").unlink()
    assert compiled.outdated(tmp_path, SUFFIX) == ["one"], "its record alone is no module"
    # Nor of what a wheel brought.
    (tmp_path / compiled.BUILT).unlink()
    assert compiled.outdated(tmp_path, SUFFIX) == []


@built
def test_all_twins_stay_out_when_one_is_older_than_its_source(tmp_path: Path) -> None:
    """It may lack a function that its plain module names."""
    shutil.copytree(ROOT / "protos/tank_protos", tmp_path / "tank_protos")
    with open(tmp_path / "tank_protos/compiled/bundle_cut.py", "a") as source:
        source.write("\n# changed\n")
    code = "print(tank_protos.kernel.NAME, tank_protos.kernel.PAIRS)"
    assert told("auto", code, tmp_path) == "pure []"
    warned = told("auto", "", tmp_path, "error")
    assert warned.endswith("(bundle_cut): the plain functions run. Run `make kernel`")
    wanted = told("compiled", code, tmp_path)
    assert "older than their sources (bundle_cut)" in wanted
    assert "make kernel" in wanted


def build_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_build", ROOT / "protos/kernel_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_build_says_in_a_line_why_there_is_no_kernel() -> None:
    why = build_module().why
    assert "python3-dev" in why("cc ...\nx.c:3:10: fatal error: Python.h: No such file or directory\nmore")
    assert "crc.h:2: error: no" in why("cc ...\ncrc.h:2: error: no\nTraceback\nCompileError: Command")
    assert len(why("x" * 1000)) < 250
    assert why("")


def test_a_build_that_mypy_refuses_says_that_the_twins_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = build_module()

    def refuse(room: object, scratch: Path) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "twins", list)
    monkeypatch.setattr(module.native, "stale", lambda room: ["node/tank_node/server/server.py"])
    monkeypatch.setattr(module.native, "build_in_place", refuse)
    with pytest.raises(SystemExit, match="the twins are compiled, the node's modules are not"):
        module.build_in_place(only_twins=False)


def test_the_build_takes_three_words(monkeypatch: pytest.MonkeyPatch) -> None:
    module = build_module()
    monkeypatch.setenv("TANK_KERNEL_BUILD", "maybe")
    with pytest.raises(SystemExit, match="'auto', 'off' or 'require'"):
        module.mode()
    monkeypatch.setenv("TANK_KERNEL_BUILD", "")
    assert module.mode() == "auto"


@built
def test_crc32c_is_that_of_rfc_3720_at_every_length_and_alignment() -> None:
    from tank_protos.compiled.checksum import crc32c, crc32c_software

    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"123456789") == 0xE3069283
    source = random.Random(7)
    data = source.randbytes(200_000)
    lengths = [
        *range(301),
        383,
        384,
        385,
        3071,
        3072,
        3073,
        6144,
        6145,
        *(source.randrange(200_000) for _ in range(60)),
    ]
    for length in lengths:
        begin = source.randrange(min(16, len(data) - length + 1))
        start = source.getrandbits(32)
        piece = memoryview(data)[begin : begin + length]
        assert crc32c(piece, start) == crc32c_software(piece, start) == iscsi(piece, start), length
        cut = source.randrange(length + 1)
        assert crc32c(piece[cut:], crc32c(piece[:cut])) == iscsi(piece)
