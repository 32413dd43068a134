"""The asyncio shell around `connection.ClientConnection`: a socket, a timer, and the waiting calls."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from tank_client.errors import ConnectionLost, TankError
from tank_client.model import Address, Features, Route
from tank_client.settings import ClientSettings
from tank_client.wire.connection import (
    NO_PARTITION,
    Answered,
    ClientConnection,
    Event,
    Lost,
    ServerKnown,
    TankAnswer,
    TankRequest,
)
from tank_client.wire.sockets import open_transport
from tank_protos.resolver import HostAddress

Done = Callable[[Any, TankError | None], None]
"""Called once with (answer, None) or (None, error)."""
_RESUME_BELOW = 256 << 10
_PAUSE_ABOVE = 1 << 20


class BrokerTransport(asyncio.Protocol):
    """One connection to one broker. `ready` resolves with the broker's version and features, or fails."""

    def __init__(
        self,
        address: Address,
        loop: asyncio.AbstractEventLoop,
        settings: ClientSettings,
        *,
        ask: bool,
        on_end: Callable[["BrokerTransport", Lost], None],
        on_silence: Callable[["BrokerTransport"], None],
    ) -> None:
        self.address = address
        self.ready: asyncio.Future[Features] = loop.create_future()
        self._loop = loop
        self._core = ClientConnection(settings)
        self._silence_ms = settings.silence_ms
        self._ask = ask
        self._on_end = on_end
        self._on_silence = on_silence
        self._done: dict[int, Done] = {}
        self._socket: asyncio.WriteTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flush_scheduled = False
        self._writable = asyncio.Event()
        self._writable.set()

    # For the client

    @property
    def server(self) -> Features:
        """The broker's version and features; only once `ready`."""
        assert self._core.server is not None
        return self._core.server

    @property
    def reached(self) -> Address:
        """The numeric address of the broker, for another connection to the same process."""
        peer = self._socket.get_extra_info("peername") if self._socket is not None else None
        return self.address if peer is None else Address(str(peer[0]), self.address.port)

    @property
    def open(self) -> bool:
        """Whether requests can be sent."""
        return not self.ready.cancelled() and self.ready.done() and self._socket is not None

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return self._core.in_flight

    @property
    def congested(self) -> bool:
        """Whether the socket takes no more for now; `drained` waits until it does."""
        return not self._writable.is_set()

    async def drained(self) -> None:
        """Waits until the socket takes more, or the connection ends."""
        await self._writable.wait()

    def late(self) -> set[Route | None]:
        """Returns the partitions whose answers are late by `silence_ms`. None among them: a request about no
        partition."""
        return self._core.late(self._now_ms())

    def send(
        self,
        request: TankRequest,
        answer: type[TankAnswer],
        timeout_ms: float,
        operation: str,
        done: Done,
        *,
        wait_ms: float = 0,
        about: Collection[Route | None] = NO_PARTITION,
    ) -> None:
        """Sends a request, together with the others of this turn of the loop; `done` is called later, never
        within this call. `wait_ms`: how long the broker was asked to hold the answer back; it is not late
        before.
        """
        now_ms = self._now_ms()
        late_ms = now_ms + wait_ms + self._silence_ms
        request_id = self._core.send(
            request, answer, now_ms + timeout_ms, operation, late_ms=late_ms, about=about
        )
        self._done[request_id] = done
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)
        if self._timer is None:
            self._set_timer()

    async def ask(
        self,
        request: TankRequest,
        answer: type[TankAnswer],
        timeout_ms: float,
        operation: str,
        *,
        wait_ms: float = 0,
        about: Collection[Route | None] = NO_PARTITION,
    ) -> Any:
        """Sends a request and waits for the answer. Raises ConnectionLost when there is none."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def done(message: Any, error: TankError | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(message)

        self.send(request, answer, timeout_ms, operation, done, wait_ms=wait_ms, about=about)
        return await future

    def close(self, reason: str = "the client closed the connection") -> None:
        """Ends the connection; waiting calls get ConnectionLost."""
        self._take(self._core.close(reason))

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._socket = transport
        transport.set_write_buffer_limits(high=_PAUSE_ABOVE, low=_RESUME_BELOW)
        self._take(self._core.start(self._now_ms(), ask=self._ask))
        self._flush()
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        """Handles received bytes."""
        self._take(self._core.receive_data(data, self._now_ms()))
        self._flush()

    def eof_received(self) -> bool:
        """The other side closed; asyncio closes the socket in turn."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._take(self._core.receive_eof(str(exc) if exc else "the other side closed the connection"))

    def pause_writing(self) -> None:
        """The socket's buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The socket's buffer has room again."""
        self._writable.set()

    # Inside

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Answered):
                self._done.pop(event.request_id)(event.message, None)
            elif isinstance(event, ServerKnown):
                if not self.ready.done():
                    self.ready.set_result(event.server)
            else:
                self._end(event)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._socket is not None:
            buffers = self._core.data_to_send()
            if buffers:
                self._socket.writelines(buffers)

    def _end(self, lost: Lost) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            # The bytes in the buffer must not be sent any more, because their calls fail now as unanswered.
            self._socket.abort()
            self._socket = None
        self._writable.set()
        if not self.ready.done():
            self.ready.set_exception(lost.error)
            self.ready.exception()
        waiting, self._done = self._done, {}
        self._on_end(self, lost)
        for done in waiting.values():
            done(None, lost.error)

    def _set_timer(self) -> None:
        """One timer for all requests. The timer is set again when it runs out, not at every request: an
        earlier deadline is noticed at most `_TICK_S` late.
        """
        deadline_ms = self._core.next_deadline_ms()
        if deadline_ms is None or self._socket is None:
            self._timer = None
            return
        at = min(deadline_ms / 1000, self._loop.time() + _TICK_S)
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._take(self._core.expire(self._now_ms()))
        if self._socket is not None and self.late():
            self._on_silence(self)
        self._set_timer()


_TICK_S = 0.25


async def connect(
    address: Address,
    settings: ClientSettings,
    resolve: Callable[[str], Awaitable[Sequence[HostAddress]]],
    *,
    ask: bool,
    on_end: Callable[[BrokerTransport, Lost], None],
    on_silence: Callable[[BrokerTransport], None],
) -> BrokerTransport:
    """Opens a connection that is ready for requests. Raises ConnectionLost when that takes longer than
    `connect_timeout_ms`. `resolve` returns a host's addresses, at least one, or raises OSError.
    """
    loop = asyncio.get_running_loop()
    transport = BrokerTransport(address, loop, settings, ask=ask, on_end=on_end, on_silence=on_silence)
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            await open_transport(transport, await resolve(address.host), address.port)
            await asyncio.shield(transport.ready)
    except TimeoutError:
        transport.close()
        raise ConnectionLost(f"{address} did not answer within {settings.connect_timeout_ms} ms") from None
    except OSError as error:
        raise ConnectionLost(f"{address}: {error.strerror or error}") from None
    except asyncio.CancelledError:
        transport.close()
        raise
    return transport
