"""Writes: the sink of streams and of batches; docs/spark.md has its promises.

A task numbers its messages: producer `spark/<query>/<task's partition>`, epoch = batch, sequences from 0 in
every partition it writes to. For a batch write without a name the driver reserves producer ids, and each task
uses the id of its number. A task that Spark runs again sends the same bundles under the same numbers, and the
broker acknowledges those that it has without storing them again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from pyspark_tank.columns import HEADERS_TYPE
from pyspark_tank.errors import SchemaError, SinkError
from pyspark_tank.identity import WriteIdentity, Written
from pyspark_tank.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# Local properties that Spark gives to the tasks of a streaming query: StreamExecution.QUERY_ID_KEY (the id of
# the checkpoint, the same after a restart) and MicroBatchExecution.BATCH_ID_KEY.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class TankStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """`df.writeStream.format("tank")`."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark_tank.delivery import deliver

        return deliver(iterator, self._options, stream_identity())


class TankWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """`df.write.format("tank").mode("append")`. Made once in the driver."""

    # The producer ids of a write without a name, reserved by the driver: a task uses the id of its number,
    # and the cluster stores no name. An older cluster reserves none, or one: the other tasks use the ids of a
    # name drawn here.
    producer_ids = range(0)

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SchemaError(
                "mode('overwrite') is not possible: a topic is a log, which only grows; "
                "use mode('append'), or delete the topic and create it again"
            )
        check_columns(schema, options)
        self._options = options
        self._drawn_name = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from pyspark import TaskContext

        from pyspark_tank.delivery import deliver

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        options = self._options
        if options.write_name is not None and options.write_id is not None:
            identity = WriteIdentity.of_write(options.write_name, options.write_id, task)
        else:
            producer_id = self.producer_ids[task] if task < len(self.producer_ids) else 0
            identity = WriteIdentity(self._drawn_name, 0, task, producer_id)
        return deliver(iterator, options, identity)


def stream_identity() -> WriteIdentity:
    """The identity of the task that this process runs. Raises SinkError outside of a streaming query's
    task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    batch = None if context is None else context.getLocalProperty(BATCH_ID)
    if context is None or not query or batch is None:
        raise SinkError(
            "Spark did not give the task its query and batch, so a repeat could not be recognized; "
            "this version of Spark is not supported"
        )
    return WriteIdentity(query, int(batch), context.partitionId())


_WRITABLE = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_TYPE,),
    "topic": ("string",),
    "partition": ("int",),
}


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raises SchemaError for rows that can't be written, before anything runs. Ignores columns with other
    names, as Spark's Kafka sink does.
    """
    kinds = {str(field.name): str(field.dataType.simpleString()) for field in schema.fields}
    if "value" not in kinds:
        raise SchemaError(
            f"the rows have no column `value` (they have {', '.join(kinds) or 'none'}): make one, "
            "for instance by df.selectExpr('to_json(struct(*)) AS value')"
        )
    for name, wanted in _WRITABLE.items():
        if name in kinds and kinds[name] not in wanted:
            raise SchemaError(
                f"column `{name}` is {kinds[name]}, not {' or '.join(wanted)}: cast it"
                + (", or use to_json" if name == "value" else "")
            )
    if options.topic is None and "topic" not in kinds:
        raise SchemaError(
            "nothing says where to write: add .option('topic', 'name') or a column `topic` with the name"
        )
