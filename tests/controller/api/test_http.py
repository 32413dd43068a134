"""A controller's HTTP port: who holds connections to it takes no descriptors of Raft's."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from aiohttp import ClientSession

from tank_controller import limits
from tank_controller.api.http import ControllerHttp
from tank_controller.security.trust import NO_TRUST


def test_who_holds_connections_shuts_nobody_out() -> None:
    async def story() -> None:
        http = ControllerHttp(SimpleNamespace(node=None, trust=NO_TRUST))  # all that is asked of it
        port = await http.start("127.0.0.1:0")
        async with contextlib.AsyncExitStack() as held:
            held.push_async_callback(http.stop)
            idle = []
            for _ in range(limits.MAX_HTTP_CONNECTIONS + 20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                held.callback(writer.close)
                idle.append(reader)
            for _ in range(2):  # the first may come in one burst with those that wait to be taken
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                held.callback(writer.close)
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            async with asyncio.timeout(30):
                assert await idle[0].read(1) == b"", "the oldest had to go"
            closed = sum(each.at_eof() for each in idle)
            assert closed >= 20, "only so many may stay"

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_head_is_answered_as_get_is_without_a_body(path: str) -> None:
    async def story() -> None:
        http = ControllerHttp(SimpleNamespace(node=None, trust=NO_TRUST))  # all that is asked of it
        port = await http.start("127.0.0.1:0")
        try:
            async with ClientSession(f"http://127.0.0.1:{port}") as session:
                async with session.get(path) as got:
                    assert await got.read()
                async with session.head(path) as headed:
                    assert (headed.status, headed.content_type) == (got.status, got.content_type)
                    assert await headed.read() == b""
        finally:
            await http.stop()

    asyncio.run(story())
