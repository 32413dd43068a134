"""The page of metrics, as Prometheus gets it."""

from aiohttp import ClientSession


async def scraped_page(port: int) -> str:
    """What the process answers that listens on this port of ours."""
    async with (
        ClientSession(f"http://127.0.0.1:{port}") as session,
        session.get("/metrics", raise_for_status=True) as answer,
    ):
        return await answer.text()
