"""The data source that Spark knows as `tank`: checks the options and makes readers and writers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_tank.columns import default_schema, layout_of
from pyspark_tank.options import parse_sink_options, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from pyspark_tank.reader import TankReader
    from pyspark_tank.stream_reader import TankStreamReader
    from pyspark_tank.writer import TankStreamWriter, TankWriter

logger = logging.getLogger("pyspark_tank")

warned: set[tuple[str, ...]] = set()
"""What this process was warned of. Spark makes a new source for every plan; each warning is given once."""


class TankSource(DataSource):  # type: ignore[misc]
    """`format("tank")`. Made by Spark with the options of the read or write; see docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "tank"

    def schema(self) -> str:
        """The columns when the query names none. Raises OptionError, SchemaError."""
        # Batch or stream is not known yet: what differs between them is checked by the reader.
        options = parse_source_options(_without_batch_only(self.options), streaming=True)
        self._tell(options.without_meaning)
        return default_schema(options)

    def _tell(self, without_meaning: tuple[str, ...]) -> None:
        """Gives one warning about options without meaning. Spark sends the source to other processes together
        with the mark that the warning was given.
        """
        told: tuple[str, ...] = getattr(self, "told", ())
        _warn_once(tuple(name for name in without_meaning if name not in told))
        self.told = (*told, *without_meaning)

    def reader(self, schema: StructType) -> TankReader:
        """For `spark.read`. Raises OptionError, SchemaError."""
        from pyspark_tank.reader import TankReader

        options = parse_source_options(self.options, streaming=False)
        self._tell(options.without_meaning)
        return TankReader(options, schema, layout_of(schema, options))

    def streamReader(self, schema: StructType) -> TankStreamReader:
        """For `spark.readStream`. Raises OptionError, SchemaError."""
        from pyspark_tank.stream_reader import TankStreamReader

        options = parse_source_options(self.options, streaming=True)
        self._tell(options.without_meaning)
        return TankStreamReader(options, schema, layout_of(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> TankWriter:
        """For `df.write`. Raises OptionError, SchemaError, ServersError, SinkError."""
        from pyspark_tank.connecting import require_idempotence, reserve_producer_ids
        from pyspark_tank.writer import TankWriter

        options = parse_sink_options(self.options)
        self._tell(options.without_meaning)
        writer = TankWriter(options, schema, overwrite)
        require_idempotence(options.servers)
        if options.write_name is None:
            writer.producer_ids = reserve_producer_ids(options.servers)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> TankStreamWriter:
        """For `df.writeStream`. Raises OptionError, SchemaError, ServersError, SinkError."""
        from pyspark_tank.connecting import require_idempotence
        from pyspark_tank.writer import TankStreamWriter

        options = parse_sink_options(self.options, streaming=True)
        self._tell(options.without_meaning)
        writer = TankStreamWriter(options, schema)
        require_idempotence(options.servers)
        return writer


def _without_batch_only(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if not key.lower().startswith("ending")}


def _warn_once(without_meaning: tuple[str, ...]) -> None:
    """Logs one warning about all options that Tank ignores."""
    if without_meaning and without_meaning not in warned:
        warned.add(without_meaning)
        logger.warning(
            "these options have no meaning to tank and are ignored: %s", ", ".join(without_meaning)
        )
