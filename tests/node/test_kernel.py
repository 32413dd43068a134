"""Which form of the node's modules runs: the compiled ones only where they are fresh and fit to load."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tank_node import kernel, version
from tank_protos import kernel as twins
from tank_protos.compiled import BUILT, changed, stamps

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = kernel.LIBRARY + EXTENSION_SUFFIXES[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the compiled modules: a library, made of one source that was changed since."""
    monkeypatch.setattr(kernel, "FOLDER", tmp_path)
    known = stamps(ROOT, ["node/tank_node/metrics.py"])
    known["node/tank_node/metrics.py"][0] += 1
    (tmp_path / LIBRARY).write_bytes(b"")
    (tmp_path / BUILT).write_text(json.dumps({LIBRARY: known}))
    return tmp_path


def test_a_source_is_changed_when_its_content_is(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("x = 1\n")
    known = stamps(tmp_path, ["a.py"])
    assert changed(tmp_path, known) == []
    os.utime(source, ns=(1, 1))
    assert changed(tmp_path, known) == [], "it was only written again"
    source.write_text("x = 2\n")
    assert changed(tmp_path, known) == ["a.py"]
    source.unlink()
    assert changed(tmp_path, known) == ["a.py"]


def test_stale_modules_are_not_used_and_it_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "MODE", "auto")
    with pytest.warns(RuntimeWarning, match=r"sources \(node/tank_node/metrics.py\).*make kernel"):
        assert kernel.choose() == "pure"
    monkeypatch.setattr(twins, "MODE", "compiled")
    with pytest.raises(ImportError, match=r"older than their sources.*run `make kernel`"):
        kernel.choose()


def test_modules_that_are_not_there_are_no_error_unless_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / LIBRARY).unlink()
    monkeypatch.setattr(twins, "MODE", "auto")
    assert kernel.choose() == "pure"
    monkeypatch.setattr(twins, "MODE", "compiled")
    with pytest.raises(ImportError, match=r"were not compiled.*make kernel"):
        kernel.choose()


def test_both_words_are_told_where_node_and_twins_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "NAME", "compiled")
    monkeypatch.setattr(kernel, "NAME", "pure")
    assert version.kernel_name() == "compiled twins, pure node"
    monkeypatch.setattr(kernel, "NAME", "compiled")
    assert version.kernel_name() == "compiled"


@pytest.mark.integration
def test_the_environment_chooses_and_a_library_that_does_not_load_is_left_out(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "node/tank_node", tmp_path / "tank_node", ignore=shutil.ignore_patterns("*.so"))
    library = tmp_path / "tank_node/compiled" / LIBRARY
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(b"no library")
    (library.parent / BUILT).unlink(missing_ok=True)

    program = "from tank_node import kernel, metrics; print(kernel.NAME, metrics.__file__)"

    def told(mode: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"TANK_KERNEL": mode, "PYTHONPATH": f"{tmp_path}:{ROOT / 'protos'}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return (done.stdout or done.stderr).strip().splitlines()[-1]

    assert told("pure") == f"pure {tmp_path}/tank_node/metrics.py"
    assert told("auto") == f"pure {tmp_path}/tank_node/metrics.py"
    if twins.NAME == "compiled":
        assert "the node's compiled modules can't be loaded" in told("compiled")


@pytest.mark.skipif(kernel.NAME == "pure", reason="the node is not compiled")
def test_compiled_modules_take_the_place_of_the_plain_ones() -> None:
    import tank_node.log.tail
    import tank_node.server.server

    for module in (tank_node.server.server, tank_node.log.tail):
        assert str(kernel.FOLDER) in str(module.__file__)
