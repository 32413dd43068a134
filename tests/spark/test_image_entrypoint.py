"""What the Spark image's containers become, by what Spark puts into their environment. No Spark runs here."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parents[2] / "spark" / "image" / "entrypoint.py"
POD = {
    "SPARK_HOME": "/opt/spark/home",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver.data.svc:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1408m",
    "SPARK_APPLICATION_ID": "spark-1f",
    "SPARK_EXECUTOR_POD_IP": "10.244.1.9",
    "SPARK_EXECUTOR_POD_NAME": "flights-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_0": "-Dfirst=a b",
}


@pytest.fixture(scope="module")
def entrypoint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_entrypoint", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_executor_becomes_the_backend_that_its_driver_waits_for(entrypoint: ModuleType) -> None:
    assert entrypoint.command(["executor"], POD) == [
        "java", "-Dfirst=a b", "-Dspark.driver.port=7078", "-Dlast=1", "-Xms1408m", "-Xmx1408m",
        "-cp", "/opt/spark/home/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://CoarseGrainedScheduler@driver.data.svc:7078",
        "--executor-id", "3", "--cores", "2", "--app-id", "spark-1f", "--hostname", "10.244.1.9",
        "--resourceProfileId", "0", "--podName", "flights-exec-3",
    ]  # fmt: skip


def test_settings_come_before_the_jars_and_a_named_java_is_used(entrypoint: ModuleType) -> None:
    more = {"SPARK_CONF_DIR": "/conf", "SPARK_CLASSPATH": "/more/*", "JAVA_HOME": "/jdk"}
    words = entrypoint.command(["executor"], POD | more)
    assert words[0] == "/jdk/bin/java"
    assert words[words.index("-cp") + 1] == "/conf:/more/*:/opt/spark/home/jars/*"


def test_a_driver_of_cluster_mode_runs_in_its_pod(entrypoint: ModuleType) -> None:
    given = ["driver", "--properties-file", "/opt/spark/conf/spark.properties", "local:///app/flights.py"]
    assert entrypoint.command(given, {"SPARK_DRIVER_BIND_ADDRESS": "10.244.1.4"}) == [
        "spark-submit", "--conf", "spark.driver.bindAddress=10.244.1.4", "--deploy-mode", "client",
        "--properties-file", "/opt/spark/conf/spark.properties", "local:///app/flights.py",
    ]  # fmt: skip


def test_anything_else_is_a_command(entrypoint: ModuleType) -> None:
    assert entrypoint.command(["python", "/app/flights.py"], {}) == ["python", "/app/flights.py"]


@pytest.mark.parametrize("missing", ["SPARK_DRIVER_URL", "SPARK_EXECUTOR_MEMORY", "SPARK_EXECUTOR_POD_NAME"])
def test_a_pod_that_no_driver_made_is_told_what_is_missing(entrypoint: ModuleType, missing: str) -> None:
    with pytest.raises(entrypoint.NotAskedError, match=missing):
        entrypoint.command(["executor"], {**POD, missing: ""})


def test_a_container_without_its_variables_says_so_in_one_line() -> None:
    asked = {name: value for name, value in POD.items() if name != "SPARK_DRIVER_URL"}
    done = subprocess.run(
        [sys.executable, PATH, "executor"], env=asked, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "error: SPARK_DRIVER_URL is not set: this is for pods that a Spark driver makes\n"


def test_the_process_becomes_the_command(tmp_path: Path) -> None:
    """A shell between them would not pass SIGTERM on."""
    script = tmp_path / "who"
    script.write_text("#!/bin/sh\necho $$ $PPID $1\n")
    script.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, PATH, "who", "ran"],
        env={"PATH": f"{tmp_path}:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        said, _ = process.communicate()
    assert said.split() == [str(process.pid), str(os.getpid()), "ran"]


def test_a_command_that_is_not_there_is_named() -> None:
    done = subprocess.run(
        [sys.executable, PATH, "nonesuch"], env={"PATH": "/bin"}, capture_output=True, text=True, check=False
    )
    assert done.stderr == "error: nonesuch: No such file or directory\n"
