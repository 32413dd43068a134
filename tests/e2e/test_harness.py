"""The parts of the end-to-end suite that need no cluster."""

import base64
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from e2e.support.environment import PROGRAMS, ROOT, Environment, MissingError, of_node
from e2e.support.iggy_package import UNPACK
from e2e.support.images import KEPT, digest, forget, is_small_enough
from e2e.support.load import IGGY_ROOT, PACKAGES, packed, pod
from e2e.support.release import commands
from e2e.test_5_spark import LOAD, SLOWER, brought, example


def test_commands_of_nodes_are_filled_in() -> None:
    assert of_node("/k8s/node-stop {number} --cut", "node12") == ["/k8s/node-stop", "12", "--cut"]
    assert of_node("docker kill {node}", "kind-worker2") == ["docker", "kill", "kind-worker2"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with all programs that the suite can't do without."""
    for name in PROGRAMS:
        (tmp_path / name).touch(0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [({}, "KUBECONFIG"), ({"KUBECONFIG": "k"}, "TANK_IMAGE_LOAD")],
)
def test_what_is_missing_is_named(path: str, variables: dict[str, str], wanted: str) -> None:
    with pytest.raises(MissingError, match=wanted):
        Environment.read({"PATH": path, **variables})


def test_a_missing_program_is_named_and_no_other(path: str) -> None:
    (Path(path) / "helm").unlink()
    with pytest.raises(MissingError, match=r"^helm can't be found on the PATH"):
        Environment.read({"PATH": path, "KUBECONFIG": "k", "TANK_IMAGE": "tank:1"})


def test_the_environment_names_commands(path: str) -> None:
    variables = {
        "PATH": path,
        "KUBECONFIG": "k",
        "TANK_IMAGE_LOAD": "load",
        "TANK_NODE_START": "start",
        "TANK_IN_NODE": "in",
    }
    assert Environment.read(variables) == Environment("", "load", "", "start", "in")
    named = Environment.read({**variables, "TANK_SPARK_IMAGE": "spark:1"})
    assert brought(named) == "spark:1", "it is built by nobody"


def test_sparks_image_is_not_built_where_nothing_brings_it_to_the_nodes(path: str) -> None:
    environment = Environment.read({"PATH": path, "KUBECONFIG": "k", "TANK_IMAGE": "tank:1"})
    with pytest.raises(pytest.skip.Exception, match="set TANK_IMAGE_LOAD, or TANK_SPARK_IMAGE"):
        brought(environment)


def test_commands_are_taken_from_the_notes_as_they_stand() -> None:
    notes = (
        "Tank\n  tank.default.svc:11011\n\nDo:\n  kubectl get pods\n  echo hi | kubectl exec -i x -- cat\n"
    )
    assert commands(notes) == ["kubectl get pods", "echo hi | kubectl exec -i x -- cat"]


def test_the_clients_pod_has_iggys_user_and_client_where_they_have_a_part() -> None:
    def environment(*, with_iggy: bool) -> dict[str, object]:
        (container,) = pod("tank:x", "node1", with_iggy=with_iggy)["spec"]["containers"]
        return {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}

    found = environment(with_iggy=True)
    assert found["IGGY_ROOT"] == {"secretKeyRef": {"name": IGGY_ROOT, "key": "root"}}
    assert str(found["PYTHONPATH"]).split(":") == ["/clients/clients.zip", str(PACKAGES)]
    assert "IGGY_ROOT" not in environment(with_iggy=False)


def test_a_package_is_unpacked_in_a_pod(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("a_package/__init__.py", "")
    sent = base64.b64encode((tmp_path / "a.whl").read_bytes())
    subprocess.run([sys.executable, "-c", UNPACK, str(tmp_path / "into")], input=sent, check=True)
    assert (tmp_path / "into" / "a_package" / "__init__.py").exists()


def test_the_flights_come_slowly_enough_for_a_broker_to_die_meanwhile() -> None:
    (job,) = example(LOAD, "tank-spark:x")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "tank-spark:x"
    assert f'{container["args"][-2]}, "{container["args"][-1]}"' == SLOWER


def test_the_image_has_another_tag_when_a_source_or_an_argument_changes(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("one")
    first = digest([tmp_path], [])
    assert digest([tmp_path], []) == first
    (tmp_path / "built.so").write_text("made of others")
    assert digest([tmp_path], []) == first
    assert digest([tmp_path], ["REVISION=2"]) != first
    source.write_text("two")
    assert digest([tmp_path], []) != first


def test_what_a_build_makes_has_no_part_in_the_tag_and_a_file_without_a_suffix_has(tmp_path: Path) -> None:
    first = digest([tmp_path], [])
    compiled = tmp_path / "node" / "tank_node" / "compiled"
    compiled.mkdir(parents=True)
    (compiled / "anything").touch()
    for name in ("built.json", "kernel.c"):
        (tmp_path / name).touch()
    assert digest([tmp_path], []) == first
    (tmp_path / "LICENSE").touch()
    assert digest([tmp_path], []) != first


def test_the_archives_that_were_used_longest_ago_go_and_those_of_other_names_stay(tmp_path: Path) -> None:
    archives = [tmp_path / f"localhost_tank-{n:012x}.tar" for n in range(KEPT + 2)]
    other = tmp_path / f"localhost_tank-spark-{0:012x}.tar"
    for n, archive in enumerate([other, *archives]):
        archive.touch()
        os.utime(archive, (n, n))
    forget(archives[-1])
    assert sorted(tmp_path.iterdir()) == sorted([other, *archives[-KEPT:]])


def test_an_image_that_has_grown_is_found(tmp_path: Path) -> None:
    archive = tmp_path / "localhost_tank-0.tar"
    for size, is_small in ((256_500_000, True), (329_000_000, True), (331_000_000, False)):
        with archive.open("wb") as written:
            written.truncate(size)  # a hole: no disk is filled
        assert is_small_enough(archive) is is_small


@pytest.mark.parametrize("module", ["tests.chaos.load", "e2e.support.verdict"])
def test_the_clients_have_all_that_they_import(tmp_path: Path, module: str) -> None:
    archive = tmp_path / "clients.zip"
    archive.write_bytes(packed())
    rooms = [str(ROOT / room) for room in ("protos", "client", "controller")]
    code = f"import sys; sys.path[:0] = {[str(archive), *rooms]}; import {module}; print({module}.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(archive))
