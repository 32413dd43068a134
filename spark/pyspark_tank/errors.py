"""What the Tank data source raises. Spark shows the message to the user, so each one says what to do."""


class TankSourceError(Exception):
    """The base of everything that this package raises on purpose."""


class OptionError(TankSourceError, ValueError):
    """An option of `spark.read.format("tank")` or `df.write.format("tank")` is unknown or makes no sense."""


class DataLossError(TankSourceError):
    """Messages that the query has still to read are gone from the broker (see `failOnDataLoss`)."""


class ServersError(TankSourceError):
    """No broker answers at the servers that the options name."""


class SchemaError(TankSourceError, ValueError):
    """The columns that were asked for, or that are to be written, are not ones that Tank knows."""


class SinkError(TankSourceError):
    """The broker refused what a task wrote."""


class JavaError(TankSourceError):
    """There is no Java on this machine that Spark could run on."""


class RegistrationError(TankSourceError):
    """The Python of Spark's workers can't load this package."""
