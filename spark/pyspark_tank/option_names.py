"""The names of the options of `format("tank")`, and of those that Spark or its Kafka source adds. Pure."""

SHARED = ("servers", "kafka.bootstrap.servers", "includeHeaders")
SOURCE = (
    "kafka.group.id",
    "groupId",
    "subscribe",
    "assign",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minOffsetsPerTrigger",
    "maxOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "valueFormat",
    "valueSchema",
    "mode",
    "columnNameOfCorruptRecord",
    "latestOffsetWaitMs",
    "fetchBytes",
    "fetchTimeoutMs",
)
SINK = ("topic", "bundleRows", "bundleBytes", "compression", "writeName", "writeId")
GROUP_KEYS = ("kafka.group.id", "groupid")  # two names of one option
STREAM_ONLY = ("minoffsetspertrigger", "maxoffsetspertrigger", "maxtriggerdelay", "latestoffsetwaitms")
BATCH_ONLY = ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp")

# Options of Spark's Kafka source about how its Kafka client works. So are all other `kafka.*` options.
KAFKA_WITHOUT_MEANING = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "useDeprecatedOffsetFetching",
)

# What Spark itself puts among the options (DataStreamReader, DataStreamWriter, DataFrameWriter).
SPARKS_OWN = frozenset(
    {
        "queryname",
        "checkpointlocation",
        "outputmode",
        "triggerinterval",
        "trigger",
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
        "streamingsourceidentifyingname",
        "readchangefeed",
        # CREATE TABLE ... USING tank, and a table in a catalog.
        "provider",
        "owner",
        "external",
        "comment",
        "location",
        "collation",
        "is_managed_location",
        "serialization.format",
        "transient_lastddltime",
    }
)

SPARKS_OWN_BEGIN = ("__", "spark.")
TABLES_OPTION = "option."  # before the name of an option that a table was created with

CANONICAL = {name.lower(): name for name in (*SHARED, *SOURCE, *SINK, *KAFKA_WITHOUT_MEANING)}
WITHOUT_MEANING = frozenset(name.lower() for name in KAFKA_WITHOUT_MEANING)
SOURCE_KEYS = frozenset(name.lower() for name in SOURCE)
SINK_KEYS = frozenset(name.lower() for name in SINK)
