"""The errors of the Tank data source. Spark shows the message to the user, so each one says what to do."""


class TankSourceError(Exception):
    """The base class of all errors that this package raises."""


class OptionError(TankSourceError, ValueError):
    """An option of `spark.read.format("tank")` or `df.write.format("tank")` is unknown or invalid."""


class DataLossError(TankSourceError):
    """Messages that the query has still to read are gone from the broker (see `failOnDataLoss`)."""


class ServersError(TankSourceError):
    """No broker answers at the servers that the options name."""


class SchemaError(TankSourceError, ValueError):
    """The columns to read or to write are not columns of Tank."""


class SinkError(TankSourceError):
    """The broker refused the messages of a task."""


class JavaError(TankSourceError):
    """This machine has no Java that can run Spark."""


class RegistrationError(TankSourceError):
    """The Python of Spark's workers can't load this package."""
