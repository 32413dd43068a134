"""The synchronous face: the same names and arguments as `tank_client`, blocking.

`Client`, `Admin`, `Producer`, `Consumer`: every `async def` there is a plain method here, `async for` is
`for`, futures are `concurrent.futures.Future`s (`.result(timeout)`). The work is done by the asynchronous
client on one background thread per client (see `loop_thread`), which `close()`, or leaving the `with` block,
ends. Safe for several threads, except a consumer, which is for one thread at a time. After a fork, make a new
client in the child.

`admin`, `client` and `producer` have these classes.
"""

from tank_client.sync.admin import Admin
from tank_client.sync.client import Client, Consumer
from tank_client.sync.producer import Producer

__all__ = ["Admin", "Client", "Consumer", "Producer"]
