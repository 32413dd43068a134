"""Walks through the commands of `iggy`, the command line of Iggy's crates: `python cli.py BINARY HOST:PORT`.

Prints a line of JSON for each step: its name, and what was wrong; empty: nothing. A step whose command the
version has not is not printed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

COMMAND_S = 60.0
"""The longest that one command may take."""
ROOT_USER = ("--username", "iggy", "--password", "iggy")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{40,}")


class NoSuchCommand(Exception):
    """The version has no such command."""


def expect(found: object, wanted: object) -> None:
    """Raises AssertionError when they differ."""
    assert found == wanted, f"{found!r}, where {wanted!r} is wanted"


class CommandWalk:
    """The steps, in their order. Each begins with what those before it have made."""

    def __init__(self, binary: str, address: str, home: Path) -> None:
        self._binary = binary
        self._address = address
        self._home = home
        self._names = ("walk", "steps")

    def pings(self) -> None:
        self._run("ping", "--count", "2")

    def is_refused_with_a_wrong_password(self) -> None:
        self._refused("stream", "list", user=("--username", "iggy", "--password", "wrong password"))

    def shows_itself_and_all_clients(self) -> None:
        assert "TCP" in self._run("me").upper()
        rows = _rows(self._run("client", "list", "--list-mode", "list"))
        assert rows, "there is no client"
        # The client that is asked for is this command's own connection, whose number the next one can't know.
        self._refused("client", "get", "4294967295")

    def shows_statistics(self) -> None:
        assert "streams" in self._run("stats").lower()
        assert json.loads(self._run("stats", "--output", "json"))

    def shows_the_cluster(self) -> None:
        assert self._address.split(":")[1] in self._run("cluster", "metadata")

    def describes_options(self) -> None:
        self._needs("options")
        assert "message_expiry" in self._run("options", "topic")

    def makes_a_stream(self) -> None:
        self._run("stream", "create", "walk")

    def is_refused_a_second_stream_of_the_name(self) -> None:
        self._refused("stream", "create", "walk")

    def shows_and_lists_streams(self) -> None:
        assert "walk" in self._run("stream", "get", "walk")
        assert "walk" in self._run("stream", "get", "0")
        expect(len(_rows(self._run("stream", "list", "--list-mode", "list"))), 1)
        self._refused("stream", "get", "nowhere")

    def makes_topics_with_and_without_options(self) -> None:
        self._run("topic", "create", "walk", "steps", "2", "none")
        self._run("topic", "create", "walk", "optional", "1", "gzip", "1day", "--max-topic-size", "2GB")

    def shows_and_lists_topics(self) -> None:
        shown = self._run("topic", "get", "walk", "optional")
        assert "gzip" in shown, shown
        assert "1day" in shown, shown
        expect(len(_rows(self._run("topic", "list", "walk", "--list-mode", "list"))), 2)
        self._refused("topic", "get", "walk", "nowhere")

    def sends_messages(self) -> None:
        messages = [f"message {number}" for number in range(10)]
        self._run("message", "send", "--partition-id", "0", *self._names, *messages)

    def sends_by_key_balanced_and_with_headers(self) -> None:
        self._run("message", "send", "--message-key", "a key", "walk", "optional", "keyed")
        self._run("message", "send", "walk", "optional", "balanced")
        headers = "text:string:a value,number:int32:7,yes:bool:true"
        self._run("message", "send", "--headers", headers, "walk", "optional", "with headers")
        shown = self._run("message", "poll", "--last", "--show-headers", "walk", "optional", "0")
        assert "with headers" in shown, shown
        assert "a value" in shown, shown
        assert "7" in shown, shown

    def polls_from_the_first_an_offset_and_the_last(self) -> None:
        expect(self._polled("--first", "--message-count", "100"), list(range(10)))
        expect(self._polled("--offset", "7", "--message-count", "2"), [7, 8])
        expect(self._polled("--last", "--message-count", "3"), [7, 8, 9])
        expect(self._polled("--offset", "1000"), [])

    def polls_the_next_and_stores_how_far(self) -> None:
        for wanted in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []):
            found = self._polled("--next", "--auto-commit", "--consumer", "walker", "--message-count", "4")
            expect(found, wanted)

    def sends_and_polls_by_files(self) -> None:
        file = str(self._home / "messages")
        self._run(
            "message", "poll", "--first", "--message-count", "3", "--output-file", file, *self._names, "0"
        )
        self._run("message", "send", "--partition-id", "1", "--input-file", file, *self._names)
        shown = self._run("message", "poll", "--first", "--message-count", "9", *self._names, "1")
        expect(_offsets(shown), [0, 1, 2])

    def flushes(self) -> None:
        self._run("message", "flush", *self._names, "0", "--fsync")

    def stores_and_shows_offsets(self) -> None:
        self._run("consumer-offset", "set", "me", *self._names, "0", "4")
        shown = self._run("consumer-offset", "get", "me", *self._names, "0")
        assert re.search(r"\b4\b", shown), shown
        self._refused("consumer-offset", "set", "me", *self._names, "0", "1000")

    def makes_shows_lists_and_deletes_groups(self) -> None:
        self._run("consumer-group", "create", *self._names, "workers")
        assert "workers" in self._run("consumer-group", "get", *self._names, "workers")
        expect(len(_rows(self._run("consumer-group", "list", *self._names, "--list-mode", "list"))), 1)
        self._run("consumer-group", "delete", *self._names, "workers")
        self._refused("consumer-group", "get", *self._names, "workers")

    def manages_users(self) -> None:
        self._run("user", "create", "reader", "secret-password")
        assert "reader" in self._run("user", "get", "reader")
        expect(len(_rows(self._run("user", "list", "--list-mode", "list"))), 2)
        reader = ("--username", "reader", "--password", "secret-password")
        self._refused("stream", "create", "forbidden", user=reader)
        self._run("user", "permissions", "reader", "--global-permissions", "m_str,r_str")
        self._run("stream", "create", "allowed", user=reader)
        self._run("stream", "delete", "allowed", user=reader)
        self._run("user", "permissions", "reader")
        self._refused("stream", "create", "forbidden", user=reader)
        self._run("user", "password", "reader", "secret-password", "another-password")
        self._refused("stream", "list", user=reader)
        self._run("user", "name", "reader", "writer")
        self._run("user", "status", "writer", "inactive")
        self._refused("me", user=("--username", "writer", "--password", "another-password"))
        self._run("user", "delete", "writer")
        self._refused("user", "get", "writer")

    def gives_permissions_on_a_stream_and_a_topic(self) -> None:
        self._run("user", "create", "limited", "secret-password", "--stream-permissions", "0:r_str#0:p_msg")
        limited = ("--username", "limited", "--password", "secret-password")
        self._run("message", "poll", "--first", *self._names, "0", user=limited)
        self._refused("message", "send", "--partition-id", "0", *self._names, "forbidden", user=limited)
        self._run("user", "delete", "limited")

    def makes_lists_and_deletes_access_tokens_and_logs_in_by_one(self) -> None:
        found = _TOKEN.search(self._run("pat", "create", "walker", "1day"))
        assert found, "no token was shown"
        assert "walker" in self._run("pat", "list")
        assert "walk" in self._run("stream", "list", user=("--token", found[0]))
        self._run("pat", "delete", "walker")
        self._refused("stream", "list", user=("--token", found[0]))

    def keeps_contexts(self) -> None:
        address = ("--tcp-server-address", self._address)
        self._run("context", "create", "mine", "--transport", "tcp", *address, *ROOT_USER, user=())
        self._run("context", "use", "mine", user=())
        assert "walk" in self._command("stream", "list")
        self._run("context", "use", "default", user=())
        self._run("context", "delete", "mine", user=())

    def renames_and_changes(self) -> None:
        self._run("topic", "update", "walk", "optional", "renamed", "none", "2days")
        assert "2days" in self._run("topic", "get", "walk", "renamed")
        self._run("stream", "update", "walk", "walked")
        self._names = ("walked", "steps")
        assert "walked" in self._run("stream", "get", "0")

    def adds_and_removes_partitions(self) -> None:
        self._run("partition", "create", *self._names, "3")
        assert re.search(r"artitions count *[|┆] *5", self._run("topic", "get", *self._names))
        self._run("partition", "delete", *self._names, "2")
        assert re.search(r"artitions count *[|┆] *3", self._run("topic", "get", *self._names))

    def deletes_segments(self) -> None:
        self._run("segment", "delete", *self._names, "0", "1")

    def empties_and_deletes(self) -> None:
        self._run("topic", "purge", *self._names)
        expect(self._polled("--first"), [])
        self._run("stream", "purge", "walked")
        self._run("topic", "delete", *self._names)
        self._refused("topic", "get", *self._names)
        self._run("stream", "delete", "walked")
        self._refused("stream", "get", "walked")

    # --- what the steps share ---

    def _needs(self, command: str) -> None:
        if f"  {command} " not in self._command("--help"):
            raise NoSuchCommand

    def _polled(self, *options: str) -> list[int]:
        return _offsets(self._run("message", "poll", *options, *self._names, "0"))

    def _run(self, *words: str, user: tuple[str, ...] = ROOT_USER) -> str:
        """Runs a command as a user; returns what it has printed. Raises AssertionError when it fails."""
        return self._command("--tcp-server-address", self._address, *user, *words)

    def _refused(self, *words: str, user: tuple[str, ...] = ROOT_USER) -> None:
        try:
            shown = self._run(*words, user=user)
        except AssertionError:
            return
        # Some commands say that there is no such thing, and end well.
        assert "not found" in shown.lower(), f"{' '.join(words)} was not refused: {shown[-200:]}"

    def _command(self, *words: str) -> str:
        environment = {**os.environ, "HOME": str(self._home), "IGGY_HOME": str(self._home), "COLUMNS": "400"}
        done = subprocess.run(
            [self._binary, *words],
            env=environment,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        shown = (done.stderr or done.stdout).strip()[-250:]
        assert done.returncode == 0, f"{' '.join(words[:4])}: exit code {done.returncode}: {shown}"
        return done.stdout


def _rows(shown: str) -> list[str]:
    """The lines of a list, which has one for each thing, with its parts between bars."""
    return [line for line in shown.splitlines() if "|" in line]


def _offsets(shown: str) -> list[int]:
    """The first column of the table of polled messages."""
    found = re.findall(r"^[|│┃] *(\d+) *[|┆│]", shown, re.MULTILINE)
    return [int(each) for each in found]


def steps(walk: CommandWalk) -> list[tuple[str, Callable[[], None]]]:
    """The steps by name, in the order in which they are written."""
    names = [name for name in vars(CommandWalk) if not name.startswith("_")]
    return [(name.replace("_", " "), getattr(walk, name)) for name in names]


def main() -> None:
    """See the module."""
    with tempfile.TemporaryDirectory(prefix="tank-iggy-cli-") as home:
        for name, step in steps(CommandWalk(sys.argv[1], sys.argv[2], Path(home))):
            wrong = ""
            try:
                step()
            except NoSuchCommand:
                continue
            except Exception as error:
                wrong = f"{type(error).__name__}: {error}"[:400]
            print(json.dumps([name, wrong]), flush=True)


main()
