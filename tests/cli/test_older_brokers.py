"""The command with the C++ broker and with one of the old document, played by a script over real sockets."""

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from tank_cli.main import main
from tank_cli.shell.exit_codes import ExitCode
from tests.support.clients.scripted_broker import Kind
from tests.support.nodes.threaded_broker import ThreadedBroker


class Older(ThreadedBroker):
    """One of them, and a `tank` that talks to it."""

    def tank(self, *arguments: str, stdin: bytes = b"") -> Result:
        command = ["--servers", self.address, *arguments]
        return CliRunner().invoke(main, command, input=stdin, prog_name="tank")


@pytest.fixture(params=[Kind.CPP, Kind.OLD], ids=["cpp", "old"])
def older(request: pytest.FixtureRequest) -> Iterator[Older]:
    with Older(request.param) as broker:
        yield broker


def test_messages_go_in_and_come_out_of_a_partition_that_is_named(older: Older) -> None:
    stored = older.tank("produce", "t", "--partition", "1", "--key", "k", stdin=b"one\ntwo\n")
    assert stored.exit_code == 0, stored.stderr
    assert older.values(1) == [b"one", b"two"]
    shown = older.tank("consume", "t", "--partition", "1", "--key-separator", "=")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout == "k=one\nk=two\n"


def test_status_says_which_broker_it_is(older: Older) -> None:
    shown = older.tank("status")
    assert shown.exit_code == 0, shown.stderr
    name = {Kind.CPP: "the C++ broker", Kind.OLD: "a broker of the old TANK document"}[older.kind]
    assert name in shown.stdout


@pytest.mark.parametrize(
    "command", [["lag"], ["topic", "delete", "t", "--yes"], ["consume", "t", "--from", "now-1h", "-p", "0"]]
)
def test_what_the_broker_lacks_is_named(command: list[str], older: Older) -> None:
    ended = older.tank(*command)
    assert ended.exit_code == ExitCode.UNSUPPORTED
    assert "does not have" in ended.stderr


def test_all_partitions_are_known_to_the_cpp_broker_and_to_be_named_for_the_old_one(older: Older) -> None:
    ended = older.tank("consume", "t")
    if older.kind is Kind.CPP:
        assert ended.exit_code == 0
    else:
        assert ended.exit_code == ExitCode.UNSUPPORTED
        assert "--partition N" in ended.stderr


def test_settings_that_the_cpp_broker_skips_are_named(older: Older) -> None:
    settings = ["--set", "flush=disk", "--set", "Log.Retention.Secs=7d", "--set", "min.insync.replicas=2"]
    ended = older.tank("topic", "create", "n", *settings)
    if older.kind is Kind.CPP:
        assert ended.exit_code == 0
        warning, created = ended.stderr.splitlines()
        assert warning.startswith("warning: topic 'n' was created without flush, min.insync.replicas: ")
        assert created == "Created topic n with 1 partition."
        assert older.tank("topic", "create", "m", "--set", "log.retention.secs=7d").stderr.count("\n") == 1
    else:
        assert ended.exit_code == ExitCode.UNSUPPORTED
        assert "warning" not in ended.stderr, "nothing was made"


@pytest.mark.parametrize("bench", ["produce", "consume", "latency"])
def test_a_measurement_that_would_leave_its_topic_is_refused_before_it_begins(
    bench: str, older: Older
) -> None:
    ended = older.tank("bench", bench, "--messages", "5")
    assert ended.exit_code == ExitCode.UNSUPPORTED
    assert ended.stdout == ""
    (told,) = ended.stderr.splitlines()
    lacks = "deleting topics" if older.kind is Kind.CPP else "listing a topic's partitions"
    assert lacks in told
    assert ("--topic NAME" in told) is (older.kind is Kind.CPP), "there it would not help"
    assert set(older.broker.topics) == {"t"}


def test_a_topic_that_stays_is_measured_where_its_partitions_are_told(older: Older) -> None:
    ended = older.tank("bench", "produce", "--messages", "5", "--topic", "t")
    if older.kind is Kind.CPP:
        assert ended.exit_code == 0
        assert ended.stderr == ""
    else:
        assert ended.exit_code == ExitCode.UNSUPPORTED
        assert len(ended.stderr.splitlines()) == 1
        assert "measure a newer broker" in ended.stderr


def test_an_unknown_topic_is_not_found(older: Older) -> None:
    assert older.tank("produce", "nowhere", "-p", "0", stdin=b"x\n").exit_code == ExitCode.NOT_FOUND
    assert older.tank("consume", "nowhere", "-p", "0").exit_code == ExitCode.NOT_FOUND
