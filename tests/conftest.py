"""What holds for all tests."""

import os
import signal
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

import pytest

from tank_node import kernel as node_kernel
from tank_node.version import kernel_name
from tests.support import examples, kernels
from tests.support.patience import patient
from tests.support.processes import left_behind

# A shell ignores Ctrl-C in what it puts into the background, and processes hand that on. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# It was said once, to whoever runs the tests; what they start would say it to tests that look at stderr.
os.environ.setdefault("PYTHONWARNINGS", f"ignore:{node_kernel.STALE}:RuntimeWarning")

# For each JVM of a Spark: it lives for a minute, and what its best compiler takes is never earned back.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# What compares two programs on much input: the compiler's, the codecs' with their definitions, and compiled
# functions' with the plain ones; and what takes the longest with real processes. `make thorough` and `make
# slow-thorough` run them, and so does `make unit` for their own room.
THOROUGH = (
    "tests/integration/cluster/test_cluster_api.py",
    "tests/integration/cluster/test_cluster_clients.py",
    "tests/integration/cluster/test_cluster_commands.py",
    "tests/integration/cluster/test_cluster_secret.py",
    "tests/integration/cluster/test_follower_reads.py",
    "tests/integration/cluster/test_forwarding.py",
    "tests/integration/cluster/test_leave.py",
    "tests/integration/cluster/test_metadata_kill.py",
    "tests/integration/cluster/test_name_service_away.py",
    "tests/integration/cluster/test_no_majority.py",
    "tests/integration/cluster/test_older_version.py",
    "tests/integration/cluster/test_removed_broker.py",
    "tests/integration/cluster/test_rolling_upgrade.py",
    "tests/integration/cluster/test_upgrade_to_iggy.py",
    "tests/integration/connections/test_bad_input_floods.py",
    "tests/integration/connections/test_outside.py",
    "tests/integration/disks/test_full_disk.py",
    "tests/integration/disks/test_full_volume.py",
    "tests/integration/disks/test_hung_disk.py",
    "tests/integration/disks/test_put_back_in_time.py",
    "tests/integration/iggy/test_iggy_copy.py",
    "tests/integration/iggy/test_iggy_page.py",
    "tests/integration/kafka/test_groups_as_kafka.py",
    "tests/integration/kafka/test_groups_shown.py",
    "tests/integration/kafka/test_kafka_addresses.py",
    "tests/integration/kafka/test_kafka_floods.py",
    "tests/integration/kafka/test_kafka_slow_fetchers.py",
    "tests/integration/kafka/test_shared_groups.py",
    "tests/integration/programs/test_three_protocols.py",
    "tests/integration/programs/test_tutorial.py",
    "tests/benchmarks/harness/test_load_generator.py",
    "tests/chaos/test_stock_clients.py",
    "tests/client/test_reference.py",
    "tests/compiler/",
    "tests/e2e/",
    "tests/node/kafka/produce/test_request_room.py",
    "tests/node/kafka/test_request_entries.py",
    "tests/node/test_native_modules.py",
    "tests/protos/bundle/test_arrow_twins.py",
    "tests/protos/bundle/test_hostile.py",
    "tests/protos/bundle/test_reference.py",
    "tests/protos/bundle/test_twins.py",
    "tests/protos/kafka/test_our_clients_batches.py",
    "tests/protos/kafka/test_twins.py",
    "tests/protos/test_generated_codecs.py",
    "tests/protos/test_kafka_vectors.py",
    "tests/protos/test_twins_memory.py",
    "tests/simulation/told/test_told_stories.py",
    "tests/spark/test_connect.py",
    "tests/spark/test_failover.py",
    "tests/spark/source/test_flights.py",
    "tests/spark/java/test_hidden_java.py",
    "tests/spark/json/test_as_spark.py",
    "tests/spark/source/test_lag.py",
    "tests/spark/sink/test_named_writes.py",
    "tests/spark/test_pipelines.py",
    "tests/spark/source/test_reader_memory.py",
)

FOR_THE_PLAIN_NODE = "patches or inherits from the node's code; `make test-pure` runs it"


def pytest_configure(config: pytest.Config) -> None:
    """See tests.support.examples, and `left_behind.outlive`."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        left_behind.outlive()
    examples.choose(config.getoption("markexpr", ""))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What breaks the node's code from inside can't do so where that is compiled; and each test gets the time
    that this run has for it. Tests of one Spark share a worker, and its JVM; those that start their own share
    another. These two groups take the longest, so they begin first. It comes first of all such functions,
    because pytest-xdist reads the groups in its own."""
    most_s = float(config.getini("timeout"))
    for item in items:
        said = item.get_closest_marker("timeout")
        item.add_marker(pytest.mark.timeout(patient(float(said.args[0]) if said else most_s)), append=False)
        if item.nodeid.startswith(THOROUGH):
            item.add_marker(pytest.mark.thorough)
        if "spark" in item.keywords:
            shares = "shared_spark" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("spark" if shares else "spark-apart"))
    items.sort(key=lambda item: "spark" not in item.keywords)
    if node_kernel.NAME == "compiled":
        for item in items:
            if "plain_node" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=FOR_THE_PLAIN_NODE))


class WorkerNode(Protocol):
    """A worker of pytest-xdist."""

    config: pytest.Config


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerNode, ids: Sequence[str]) -> None:
    """Ends a run whose groups pytest-xdist did not take: each worker would start a Spark of its own."""
    if node.config.getoption("dist") == "loadgroup":
        lost = [each for each in ids if each.startswith("tests/spark/") and "@" not in each]
        if lost:
            pytest.exit(f"pytest-xdist does not know the group of {lost[0]}: is pytest too new?", 4)


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes that a test failed, for what follows it."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Marks what the test starts. What fixtures start is theirs to end."""
    os.environ[left_behind.MARK] = f"{os.getpid()} {item.nodeid}"
    try:
        return (yield)
    finally:
        del os.environ[left_behind.MARK]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Ends the processes that a failed test left: they would take ports and time from those behind it."""
    try:
        return (yield)
    finally:
        if item.stash.get(_FAILED, False):
            left_behind.end(left_behind.processes_of(f"{os.getpid()} {item.nodeid}"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """The run ends, whatever a test left behind. Workers wait for each other, and the run ends them."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        left_behind.end_with(int(exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which kernel was tested."""
    terminalreporter.write_line(f"kernel: {kernel_name()}")


@pytest.fixture(scope="module", params=kernels.NAMES)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a module's tests on plain Python and, where it was built, on the compiled kernel.

    For hot rooms: `pytestmark = pytest.mark.usefixtures("kernel")`. What a test imports at the top of its
    module is that of the kernel, and so is what the project's own modules call.
    """
    kernels.use(request.param)
    yield request.param
    kernels.use(kernels.NAMES[-1])
