"""A controller's end of the streams that brokers open to it."""

from tank_protos.generated import control_pb2 as pb
from tests.simulation.world.network import End, Stream


class ControllerLine:
    """A controller's end of a broker's stream: `tank_controller.leader.brokers.streams.BrokerLine`."""

    def __init__(self, stream: Stream, end: End) -> None:
        self._stream = stream
        self._end = end

    def send(self, message: pb.BrokerDown) -> None:
        """In order."""
        self._stream.send(self._end, message.SerializeToString())

    def end(self) -> None:
        """Closes it behind what was sent."""
        self._stream.close(self._end)
