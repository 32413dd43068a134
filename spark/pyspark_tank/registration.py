"""`register(spark)`: makes `format("tank")` known where Spark did not find it, and checks the workers."""

from __future__ import annotations

import sys
from typing import Any

from pyspark_tank.errors import RegistrationError

NEEDED = ("pyspark_tank", "tank_client", "tank_protos", "pyarrow")


def register(spark: Any) -> None:
    """Checks, in a task, that the workers have the package, and registers the source with this session
    (classic or Spark Connect).

    Raises RegistrationError, when the Python of the workers can't load it.
    """
    from pyspark_tank.source import TankSource

    missing, python = _ask_a_worker(spark)
    if missing:
        raise RegistrationError(
            f"the Python of Spark's workers ({python}) can't find {', '.join(missing)}: install "
            "tank-cluster[spark] there, or set PYSPARK_PYTHON to a Python that has it "
            f"(this one is {sys.executable}) before the session starts"
        )
    spark.dataSource.register(TankSource)


def _ask_a_worker(spark: Any) -> tuple[list[str], str]:
    """The packages that a worker lacks, and the path of its Python."""
    from pyspark.sql.functions import udf

    needed = NEEDED

    def look(_: int) -> list[str]:
        import importlib.util
        import sys as worker_sys

        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        return [worker_sys.executable, *missing]

    # The worker may lack this very module: a function of __main__ is sent as code, not by name.
    look.__module__ = "__main__"
    # Without Arrow, which the worker may lack as well.
    asked = udf(look, "array<string>", useArrow=False)
    ((answer,),) = spark.range(1).select(asked("id")).collect()
    return list(answer[1:]), str(answer[0])
