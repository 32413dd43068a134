"""How a node makes connections to other brokers, as an interface: for what replicates and forwards."""

from tank_node.session import Session


class Dialer:
    """How a node reaches another one; the simulator brings its own.

    A session hears of everything by itself: of bytes by `receive`, of the connection's end, or of one that
    never came to be, by `close`. Whoever dials again does so later, and not for ever at once.
    """

    def dial(self, host: str, port: int, session: Session) -> None:
        """Makes one attempt to connect. What the session has queued leaves first."""
        raise NotImplementedError

    def hang_up(self, session: Session) -> None:
        """Ends the attempt or the connection. Harmless when it has ended."""
        raise NotImplementedError
