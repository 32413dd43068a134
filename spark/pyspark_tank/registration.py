"""`register(spark)`: makes `format("tank")` known where Spark did not find it, and checks the workers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark_tank.errors import RegistrationError

NEEDED = ("pyspark_tank", "tank_client", "tank_protos", "pyarrow")


def register(spark: Any) -> None:
    """Registers the source with this session and has one task look for the package.

    Raises RegistrationError, in one sentence, when the Python of the workers can't load it.
    """
    from pyspark_tank.source import TankSource

    spark.dataSource.register(TankSource)
    missing, python = _ask_a_worker(spark)
    if missing:
        raise RegistrationError(
            f"the Python of Spark's workers ({python}) can't find {', '.join(missing)}: install "
            "tank-cluster[spark] there, or set PYSPARK_PYTHON to a Python that has it "
            f"(this one is {sys.executable}) before the session starts"
        )


def _ask_a_worker(spark: Any) -> tuple[list[str], str]:
    """The packages that a worker lacks, and which Python it is."""
    needed = NEEDED

    def look(rows: Iterable[Any]) -> Iterator[tuple[str, str]]:
        import importlib.util
        import sys as worker_sys

        for _ in rows:
            for name in needed:
                if importlib.util.find_spec(name) is None:
                    yield name, worker_sys.executable
            yield "", worker_sys.executable

    # The worker may lack this very module: a function of __main__ is sent whole, not by its name.
    look.__module__ = "__main__"
    answers = spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect()
    return [name for name, _ in answers if name], answers[-1][1]
