"""What the package `raftos` does, for 0001-raft.md: `python docs/decisions/0001-raftos-evidence.py`.

Installs raftos 0.2.6 from the package index, without its dependencies, into a temporary folder, and runs it
there with a shim for what it lacks (msgpack) and for what Python took away (`loop=` arguments). Every line is
looked at, not known beforehand: it says "yes" when the package did that in this run.
"""

import asyncio
import os
import pickle
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PACKAGE = "raftos==0.2.6"


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The index's ordinary client."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def say(claim: str, holds: bool, seen: str) -> None:
    """One line."""
    print(f"{'yes' if holds else 'NO '}  {claim}: {seen}", flush=True)


def not_beside_a_current_cryptography() -> None:
    """Resolves both together, installing nothing."""
    resolved = pip("install", "--dry-run", "--ignore-installed", PACKAGE, "cryptography>=40")
    lines = [
        line.strip() for line in (resolved.stdout + resolved.stderr).splitlines() if "depends on" in line
    ]
    say(
        "can't be installed with a current cryptography",
        resolved.returncode != 0,
        "; ".join(lines) or "installed",
    )


def not_on_this_python(folder: str) -> None:
    """Starts a node as its README does, with nothing patched but the missing msgpack."""
    program = (
        f"import sys, types; sys.path.insert(0, {folder!r})\n"
        "sys.modules['msgpack'] = types.ModuleType('msgpack')\n"
        "import asyncio, raftos\n"
        "raftos.configure({'log_path': '"
        + folder
        + "/logs/', 'serializer': raftos.serializers.JSONSerializer})\n"
        "asyncio.run(raftos.register('127.0.0.1:0', cluster=['127.0.0.1:1']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    version = ".".join(map(str, sys.version_info[:2]))
    last = ran.stderr.strip().splitlines()[-1:] or ["it ran"]
    say(f"doesn't run on Python {version}", ran.returncode != 0, last[0])


@contextmanager
def shimmed(folder: str) -> Iterator[Any]:
    """raftos, made to run: the serializer it lacks, and constructors that take `loop` again."""
    msgpack = types.ModuleType("msgpack")
    sys.modules["msgpack"] = msgpack
    sys.path.insert(0, folder)
    asyncio.futures.InvalidStateError = asyncio.InvalidStateError  # type: ignore[attr-defined]
    future = asyncio.Future
    asyncio.Future = lambda loop=None: asyncio.get_event_loop().create_future()  # type: ignore[misc,assignment]
    try:
        import raftos

        yield raftos
    finally:
        asyncio.Future = future  # type: ignore[misc]
        sys.path.remove(folder)


class Hex:
    """A serializer: one line an entry."""

    @staticmethod
    def pack(data: object) -> bytes:
        """To bytes."""
        return pickle.dumps(data).hex().encode()

    @staticmethod
    def unpack(data: bytes) -> Any:
        """And back."""
        return pickle.loads(bytes.fromhex(data.decode().strip()))


class Server:
    """What a raftos node's state needs of its server; `others` are not counted with itself, as in raftos."""

    def __init__(self, others: int) -> None:
        self.host, self.port = "127.0.0.1", 9000
        self.cluster = {("127.0.0.1", 9001 + n) for n in range(others)}
        self.cluster_count = len(self.cluster)
        self.loop = asyncio.get_event_loop()
        self.sent: list[dict[str, Any]] = []

    async def send(self, data: dict[str, Any], destination: object) -> None:
        """Notes it."""
        self.sent.append(data)

    def broadcast(self, data: dict[str, Any]) -> None:
        """Notes it."""
        self.sent.append(data)


async def node(raftos: Any, folder: str, others: int) -> Any:
    """A node's state in a folder; the same folder again is a restart."""
    raftos.configure({"log_path": folder, "serializer": Hex})
    raftos.State.leader = None
    state = raftos.State(Server(others))
    state.start()
    return state


def vote_request(candidate: str, term: int) -> dict[str, Any]:
    """For a log that is as long as any here."""
    return {
        "type": "request_vote", "term": term, "candidate_id": candidate, "last_log_index": 99,
        "last_log_term": 99, "sender": ("127.0.0.1", 9001),
    }  # fmt: skip


def vote_answer(term: int) -> dict[str, Any]:
    """Always the same node's."""
    sender = ("127.0.0.1", 9001)
    return {"type": "request_vote_response", "term": term, "vote_granted": True, "sender": sender}


async def settle() -> None:
    """Lets what was scheduled run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def forgets_its_vote(raftos: Any, folder: str) -> None:
    """One term, one voter, a restart, two candidates."""
    votes = []
    for candidate in ("A", "B"):
        state = await node(raftos, folder, others=2)
        state.request_handler(vote_request(candidate, term=5))
        await settle()
        votes += [candidate for sent in state.server.sent if sent.get("vote_granted")]
        state.stop()
    say("forgets its vote on restart", votes == ["A", "B"], f"in term 5 it voted for {votes}")


def leads(state: Any) -> bool:
    """Whether it believes so."""
    return type(state.state).__name__ == "Leader"


async def counts_repeated_and_stale_votes(raftos: Any, folder: str) -> None:
    """Of five nodes one answers, again and again; then one answers about a term long past."""
    state = await node(raftos, folder, others=4)
    state.to_candidate()
    for _ in range(3):
        if not leads(state):
            state.request_handler(vote_answer(state.storage.term))
    say("counts one node's vote again when it comes again", leads(state), "one voter of five made it leader")
    state.stop()
    state = await node(raftos, folder + "/stale", others=2)
    state.storage.update({"term": 7})
    state.to_candidate()
    state.request_handler(vote_answer(term=1))
    say("counts stale votes", leads(state), f"a vote of term 1 made it leader of term {state.storage.term}")
    state.stop()


async def leaves_itself_out(raftos: Any, folder: str) -> None:
    """Four nodes, of which two are cut off from two."""
    state = await node(raftos, folder, others=3)
    state.to_candidate()
    state.request_handler(vote_answer(state.storage.term))
    say(
        "leaves itself out of the quorum",
        leads(state),
        "two of four nodes are a majority, so the other two are, too",
    )
    length = state.log.last_log_index
    say("has no no-op", length == 0, f"entries after becoming leader: {length}")
    state.stop()


async def truncates_on_stale_messages(raftos: Any, folder: str) -> None:
    """Five committed entries; the append of the second comes once more."""
    state = await node(raftos, folder, others=2)
    state.storage.update({"term": 1})
    for number in range(1, 6):
        state.log.write(1, {"key": number})
    state.log.commit_index = 5
    state.request_handler({
        "type": "append_entries", "term": 1, "leader_id": "A", "commit_index": 5, "request_id": 1,
        "prev_log_index": 1, "prev_log_term": 1, "entries": [{"term": 1, "command": {"key": 2}}],
        "sender": ("127.0.0.1", 9001),
    })  # fmt: skip
    left = state.log.last_log_index
    say("truncates on stale messages", left < 5, f"of 5 committed entries {left} are left")
    state.stop()


async def never_fsyncs(raftos: Any, folder: str) -> None:
    """Term, vote and a hundred entries."""
    calls: list[int] = []
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = calls.append  # type: ignore[assignment]
    try:
        state = await node(raftos, folder, others=2)
        state.request_handler(vote_request("A", term=5))
        for number in range(100):
            state.log.write(5, {"key": number})
        state.stop()
    finally:
        os.fsync, os.fdatasync = real
    say("never fsyncs", not calls, f"{len(calls)} fsyncs for a vote and 100 entries")


async def hangs_concurrent_writers(raftos: Any, folder: str) -> None:
    """Two writes at once at a leader; both are committed and applied, and one writer is told."""
    state = await node(raftos, folder, others=2)
    state.to_candidate()
    state.request_handler(vote_answer(state.storage.term))
    leader = state.state
    writers = [asyncio.ensure_future(leader.execute_command({name: 1})) for name in ("a", "b")]
    await settle()
    for last in (1, 2, 2):
        leader.on_receive_append_entries_response({
            "type": "append_entries_response", "term": state.storage.term, "success": True,
            "last_log_index": last, "request_id": 0, "sender": ("127.0.0.1", 9001),
        })  # fmt: skip
    await settle()
    told = [writer.done() for writer in writers]
    applied = state.log.last_applied
    say("hangs concurrent writers", applied == 2 and not all(told), f"{applied} applied, told of it: {told}")
    for writer in writers:
        writer.cancel()
    state.stop()


async def examine(folder: str) -> None:
    """All of the scenes that need the shim, each in a folder of its own."""
    scenes: list[Callable[[Any, str], Any]] = [
        forgets_its_vote,
        counts_repeated_and_stale_votes,
        leaves_itself_out,
        truncates_on_stale_messages,
        never_fsyncs,
        hangs_concurrent_writers,
    ]
    with shimmed(folder) as raftos:
        for scene in scenes:
            await scene(raftos, f"{folder}/{scene.__name__}")


def main() -> int:
    """0 when raftos could be had and was examined."""
    with tempfile.TemporaryDirectory() as folder:
        installed = pip("install", "--quiet", "--no-deps", "--target", folder, PACKAGE)
        if installed.returncode != 0:
            print(f"{PACKAGE} can't be had here:\n{installed.stderr.strip()}", file=sys.stderr)
            return 1
        assert (Path(folder) / "raftos").is_dir()
        print(f"{PACKAGE} on Python {sys.version.split()[0]}")
        not_beside_a_current_cryptography()
        not_on_this_python(folder)
        asyncio.run(examine(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
