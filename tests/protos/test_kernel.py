"""The choice between the compiled kernel and plain Python, and how an outdated one is found out."""

import importlib.util
import json
import os
import random
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from fastcrc.crc32 import iscsi

from tank_protos import bundle, bundle_header, compiled, kernel
from tests.support import kernels

ROOT = Path(__file__).resolve().parents[2]
built = pytest.mark.skipif(kernel.NAME == "pure", reason="no compiled kernel")


def told(mode: str, code: str = "import tank_protos.bundle; print(tank_protos.kernel.NAME)") -> str:
    """What a fresh process prints, or the last line of its error."""
    environment = {**os.environ, "TANK_KERNEL": mode, "PYTHONPATH": str(ROOT / "protos")}
    command = [sys.executable, "-c", f"import tank_protos.kernel; {code}"]
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
    assert kernel._load("tank_protos.compiled.nobody") is None
    monkeypatch.setattr(kernel, "MODE", "compiled")
    with pytest.raises(ImportError, match="make kernel"):
        kernel._load("tank_protos.compiled.nobody")
    # A source is not taken for a compiled module, whether or not Cython is installed.
    with pytest.raises(ImportError, match="was not compiled"):
        kernel._load("tank_protos.compiled")


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
    assert bundle.validate is bundle_header.validate
    return type(bundle.validate).__name__


def test_a_twin_is_out_of_date_when_its_source_or_a_header_that_it_names_changed(tmp_path: Path) -> None:
    module = tmp_path / "one.cpython-311.so"
    (tmp_path / "one.py").write_text("from cython.cimports.shapes import x")
    (tmp_path / "shapes.pxd").write_text('cdef extern from "deep.h": pass')
    (tmp_path / "deep.h").write_text("int x;")
    (tmp_path / "other.h").write_text("int y;")

    def record() -> None:
        made = {module.name: compiled.fingerprint(tmp_path, "one")}
        (tmp_path / compiled.BUILT).write_text(json.dumps(made))
        assert not compiled.outdated(module)

    for name in ("one.py", "shapes.pxd", "deep.h"):
        record()
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
        assert compiled.outdated(module), name
        # Nothing is known of what another Python built.
        assert not compiled.outdated(module.with_name("one.cpython-312.so"))
    record()
    (tmp_path / "other.h").write_text("int z;")
    assert not compiled.outdated(module)
    # Nor of what a wheel brought.
    (tmp_path / compiled.BUILT).unlink()
    assert not compiled.outdated(module)


@built
def test_an_outdated_twin_is_used_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "outdated", lambda file: file.name.startswith("checksum"))
    with pytest.warns(RuntimeWarning, match="run `make kernel`"):
        assert kernel._load("tank_protos.compiled.checksum") is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel._load("tank_protos.compiled.bundle_header")


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
