"""Spark's own Kafka source and sink: installed beside the project, and run as a job."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.kafka_clients.libraries import PROGRAMS, install_jars, install_python_packages
from tests.kafka_clients.probes import Told

VERSION: Final = "4.2.0"
"""Of pyspark, and of the two jars: the newest that all three have in common. 4.3.0 has no jars."""
KAFKA_CLIENTS: Final = "3.9.2"
PACKAGES: Final = (
    f"pyspark=={VERSION}",
    "pyarrow>=18",
    "pandas>=2.2,<3",
    "cramjam>=2.9,<3",
    "fastcrc>=0.3.2,<1",
)
"""pyspark, and what the source of `format("tank")` needs."""
JARS: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", VERSION),
    ("org.apache.kafka", "kafka-clients", KAFKA_CLIENTS),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
"""The four that Spark itself lacks."""
STEPS: Final = 9
"""Of the job."""
JOB_TIMEOUT_S: Final = 900
"""The longest that the job may take: 320 s where seven others wanted the same two cores."""
ROOT: Final = Path(__file__).parents[2]


def install(folder: Path) -> None:
    """Installs Spark and the jars into a folder. Raises NotInstalledError."""
    install_python_packages(folder / "spark", PACKAGES)
    install_jars(folder / "spark-jars", JARS, alone=True)  # their parents name repositories of their own


def _environment(python: Path, work: str) -> dict[str, str]:
    """Of the job: no other Spark's, and with the packages of this repository."""
    paths = [str(ROOT / package) for package in ("spark", "client", "protos")]
    ours = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_DIRS": work,
    }
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")} | ours


def run(folder: Path, kafka: str, tank: str, topic: str, copy: str) -> list[Told]:
    """Runs the job. Returns its steps, each with what is wrong. Raises RuntimeError."""
    jars = ",".join(str(jar) for jar in sorted((folder / "spark-jars/libs").glob("*.jar")))
    python = folder / "spark/bin/python"
    with tempfile.TemporaryDirectory(prefix="tank-spark-") as work:
        command = [str(python), str(PROGRAMS / "spark_kafka.py"), kafka, tank, topic, copy, work, jars]
        try:
            ended = subprocess.run(
                command,
                cwd=work,
                env=_environment(python, work),
                capture_output=True,
                text=True,
                timeout=JOB_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no end after {JOB_TIMEOUT_S} s") from None
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
    if ended.returncode:
        raise RuntimeError(f"{ended.stderr.strip()[-500:]}")
    return [Told(name, problem) for name, problem in lines]
