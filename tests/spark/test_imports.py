"""`import pyspark_tank` must not fail, whatever else is broken: Spark imports it to look for sources."""

import subprocess
import sys

LOADED = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import pyspark_tank
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_importing_the_source_loads_the_standard_library_only() -> None:
    said = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout
    loaded = set(said.split())
    assert "pyspark_tank" in loaded
    assert loaded - {"pyspark_tank"} <= sys.stdlib_module_names


def test_spark_finds_the_source_by_its_name() -> None:
    from pyspark.sql.datasource import DataSource

    import pyspark_tank

    assert issubclass(pyspark_tank.DefaultSource, DataSource)
    assert pyspark_tank.DefaultSource.name() == "tank"
