"""What commands take for a broker before they begin."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tank_cli.shell import connect
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_client.model import Address


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def reasons(listener: socket.socket) -> str:
    port = listener.getsockname()[1]
    return connect.unreachable([Address("127.0.0.1", port)], 0.1).replace(f"127.0.0.1:{port}", "HERE")


def greets_with(listener: socket.socket, data: bytes) -> None:
    """The next connection is given this, and closed."""

    def take() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(data)

    threading.Thread(target=take, daemon=True).start()


def test_one_that_greets_is_a_broker(listener: socket.socket) -> None:
    greets_with(listener, b"\x03\0\0\0\0")
    assert reasons(listener) == ""


def test_one_that_says_nothing_is_given_up_in_time(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "GREETING_S", 0.2)
    assert reasons(listener) == "HERE: accepts connections, but sends nothing for 0.2 s"


@pytest.mark.parametrize(
    ("data", "said"), [(b"", "closes the connection at once"), (b"HTTP/1.1 400", "is no TANK broker")]
)
def test_what_is_no_broker_is_said(listener: socket.socket, data: bytes, said: str) -> None:
    greets_with(listener, data)
    assert reasons(listener) == f"HERE: {said}"


def test_one_that_answers_is_enough(listener: socket.socket) -> None:
    greets_with(listener, b"\x03\0\0\0\0")
    port = listener.getsockname()[1]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        dead = Address("127.0.0.1", taken.getsockname()[1])
        assert connect.unreachable([dead, Address("127.0.0.1", port)], 0.1) == ""


def test_a_frozen_one_is_named_in_the_error(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "GREETING_S", 0.2)
    monkeypatch.setattr(connect, "PATIENCE_S", 0.2)
    address = Address("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(CliError, match="sends nothing") as error:
        connect.require_server([address])
    assert error.value.code == ExitCode.UNREACHABLE
