"""Where the processes of a run live: hosts of their own in network namespaces, or all on loopback.

With namespaces every process has an address of its own, and one namespace more, the hub, routes between
them; the run itself lives in the hub. A link is cut in one direction by a rule of the hub's that swallows
what goes from one address to another: the sender sees silence, as with a cable that was pulled. It needs
root and iproute2; without them everything is on loopback, and links can't be cut.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

MAX_HOSTS = 60
_CLONE_NEWNET = 0x40000000
_RULE_PREFERENCE = 100
REACH_S = 1.0
"""A connection between two hosts takes well below a millisecond."""


class Network(Protocol):
    """Addresses for hosts 1 to MAX_HOSTS, and the links between them."""

    name: str
    cuts: bool
    """Whether links can be cut."""

    def address(self, host: int) -> str:
        """The IPv4 address that the host's processes listen on."""
        ...

    def inside(self, host: int) -> list[str]:
        """What a command line begins with, to run on that host."""
        ...

    def cut(self, source: int, destination: int) -> None:
        """From now on nothing gets from one host to the other; the way back stays."""
        ...

    def mend(self) -> None:
        """All links work again."""
        ...

    def close(self) -> None:
        """Removes what was made."""
        ...


class Loopback:
    """All on 127.0.0.1."""

    name = "loopback"
    cuts = False

    def address(self, host: int) -> str:
        return "127.0.0.1"

    def inside(self, host: int) -> list[str]:
        return []

    def cut(self, source: int, destination: int) -> None:
        raise NotImplementedError("links can't be cut on loopback")

    def mend(self) -> None:
        """Nothing was cut."""

    def close(self) -> None:
        """Nothing was made."""


class Namespaces:
    """One network namespace a host, and the hub; the process that makes it moves into the hub."""

    name = "network namespaces"
    cuts = True

    def __init__(self, hosts: int) -> None:
        assert hosts <= MAX_HOSTS
        self._prefix = f"tank-{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._made: list[str] = []
        self._cut: list[tuple[str, str]] = []
        try:
            self._make(hosts)
        except BaseException:
            self.close()
            raise

    def _make(self, hosts: int) -> None:
        self._add(self._hub)
        _ip("-n", self._hub, "link", "set", "lo", "up")
        for host in range(1, hosts + 1):
            self._add(name := self._name(host))
            _ip(
                "link",
                "add",
                f"v{host}",
                "netns",
                self._hub,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            _ip("-n", self._hub, "addr", "add", f"10.77.{host}.1/24", "dev", f"v{host}")
            _ip("-n", self._hub, "link", "set", f"v{host}", "up")
            _ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "route", "add", "default", "via", f"10.77.{host}.1")
        _ip("netns", "exec", self._hub, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        # All that the run needs was tried before it moves: what fails here leaves it where it was.
        if not self._reaches(1, 2):
            raise OSError("nothing gets from one host to another")
        self.cut(1, 2)
        if self._reaches(1, 2):
            raise OSError("a link that is cut lets everything through")
        self.mend()
        if not self._reaches(1, 2):
            raise OSError("a link that was mended lets nothing through")
        _enter(self._hub)

    def _reaches(self, source: int, destination: int) -> bool:
        """Whether a connection comes about: a packet gets there, and one comes back."""
        with self._socket(destination) as listening, self._socket(source) as calling:
            listening.bind((self.address(destination), 0))
            listening.listen()
            calling.settimeout(REACH_S)
            try:
                calling.connect(listening.getsockname())
            except TimeoutError:
                return False
        return True

    def _socket(self, host: int) -> socket.socket:
        """Of that host. A thread of its own goes there for it, and ends; the socket stays."""

        def make() -> socket.socket:
            _enter(self._name(host))
            return socket.socket()

        with ThreadPoolExecutor(1) as there:
            return there.submit(make).result()

    def _add(self, name: str) -> None:
        _ip("netns", "add", name)
        self._made.append(name)

    def _name(self, host: int) -> str:
        return f"{self._prefix}-{host}"

    def address(self, host: int) -> str:
        return f"10.77.{host}.2"

    def inside(self, host: int) -> list[str]:
        return ["ip", "netns", "exec", self._name(host)]

    def cut(self, source: int, destination: int) -> None:
        ends = (self.address(source), self.address(destination))
        if ends not in self._cut:
            self._rule("add", ends)
            self._cut.append(ends)

    def mend(self) -> None:
        while self._cut:
            self._rule("del", self._cut[-1])
            self._cut.pop()

    def _rule(self, verb: str, ends: tuple[str, str]) -> None:
        _ip(
            "-n",
            self._hub,
            "rule",
            verb,
            "from",
            ends[0],
            "to",
            ends[1],
            "blackhole",
            "pref",
            str(_RULE_PREFERENCE),
        )

    def close(self) -> None:
        while self._made:
            with contextlib.suppress(subprocess.SubprocessError):
                _ip("netns", "del", self._made[-1])
            self._made.pop()


def make(hosts: int, *, namespaces: bool | None) -> tuple[Network, str]:
    """The network, and why it is loopback ("" when it isn't). `namespaces` None: where they can be made."""
    if namespaces is False:
        return Loopback(), "it was asked for"
    why = "" if shutil.which("ip") else "there is no `ip` here (package iproute2)"
    if not why:
        try:
            return Namespaces(hosts), ""
        except (subprocess.SubprocessError, OSError) as error:
            said = getattr(error, "stderr", None)
            why = f"namespaces can't be made here: {said.strip() if said else error}"
    if namespaces:
        raise SystemExit(why)
    return Loopback(), why


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20)


def _enter(name: str) -> None:
    """Moves this thread, and all that it starts from now on, into the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{name}") as namespace:
        if libc.setns(namespace.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"can't enter the namespace {name}")
