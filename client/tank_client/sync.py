"""The synchronous face: the same names and arguments as `tank_client`, blocking.

`Client`, `Admin`, `Producer`, `Consumer`: every `async def` there is a plain method here, `async for` is `for`, futures
are `concurrent.futures.Future`s (`.result(timeout)`). The work is done by the asynchronous client on one background
thread per client, which `close()` (or leaving the `with` block) ends.
"""

from tank_client.client import Client as _AsyncClient


class Client(_AsyncClient):
    """See the module."""
