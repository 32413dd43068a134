"""Dialling other brokers, as an interface for replication and forwarding."""

from tank_node.session import Session


class Dialer:
    """Makes connections to other brokers; the simulator has its own implementation.

    The dialer calls the session: `receive` with bytes, and `close` at the end of the connection, or of an
    attempt that failed. Callers that dial again must pause before.
    """

    def dial(self, host: str, port: int, session: Session) -> None:
        """Makes one attempt to connect. Output that the session has queued is sent first."""
        raise NotImplementedError

    def hang_up(self, session: Session) -> None:
        """Ends a session's attempt or connection; does nothing when it has ended."""
        raise NotImplementedError
