"""Tank as a Spark data source: `spark.read.format("tank")`, `df.writeStream.format("tank")` and their likes.

PySpark 4.2 and newer find it by the name of this package and `DefaultSource`. Where they don't (a session
that was started before the package was installed, Spark Connect), call `pyspark_tank.register(spark)`.
Options, columns and the sink's promises: docs/spark.md.

Spark imports every package called `pyspark_*` to look for sources; when one import fails, Spark finds no
source. So this module imports `pyspark.sql.datasource` and the standard library only; pyarrow and the client
are imported where data is read and written.

Where to look:

- `source`, `registration`: the data source `tank`; `options`, `option_names`, `positions`, `columns`: a
  query's options
- `driver`, `offsets`, `fair_limit`, `stream_reader`: on the driver: the messages of a batch
- `reader`, `leader_connection`: in tasks: messages to Arrow
- `writer`, `delivery`, `bundling`, `identity`: rows to messages, and a task's report of them
- `json`: messages that hold JSON
- `connecting`, `errors`, `java_home`
"""

from pyspark_tank.errors import (
    DataLossError,
    JavaError,
    OptionError,
    RegistrationError,
    SchemaError,
    ServersError,
    SinkError,
    TankSourceError,
)
from pyspark_tank.registration import register
from pyspark_tank.source import TankSource

DefaultSource = TankSource

__all__ = [
    "DataLossError",
    "DefaultSource",
    "JavaError",
    "OptionError",
    "RegistrationError",
    "SchemaError",
    "ServersError",
    "SinkError",
    "TankSource",
    "TankSourceError",
    "register",
]
