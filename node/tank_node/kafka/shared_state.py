"""What all of Kafka's sessions of a broker share."""

from tank_node.broker.broker import Broker
from tank_node.kafka.bundle_converter import BundleConverter
from tank_node.kafka.fetch_sessions import FetchSessions
from tank_node.kafka.metadata_answers import MetadataAnswers
from tank_protos.kafka.produce_run import KafkaProduceRun


class SharedState:
    """The state that belongs to a broker, and not to one connection."""

    __slots__ = ("converted", "fetch_sessions", "metadata_answers", "run")

    def __init__(self, broker: Broker) -> None:
        limits, metrics = broker.limits, broker.metrics
        self.fetch_sessions = FetchSessions(limits, metrics, broker.started_ms)
        self.metadata_answers = MetadataAnswers(limits.kept_metadata_bytes)
        self.converted = BundleConverter(limits.converted_kept_bytes, metrics)
        self.run = KafkaProduceRun()
        """For the requests of one session's receive, which leaves it empty."""


def shared_by(broker: Broker) -> SharedState:
    """Returns the state of this broker's sessions; makes it at the first call."""
    state = broker.kafka
    if not isinstance(state, SharedState):
        state = broker.kafka = SharedState(broker)
    return state
