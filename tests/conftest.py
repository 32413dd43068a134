"""What holds for all tests."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tank_node import kernel as node_kernel
from tank_node.version import kernel_name
from tests.support import examples, kernels

# No test is judged by the clock: the machine may be busy with something else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell ignores Ctrl-C in what it puts into the background, and processes hand that on. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# It was said once, to whoever runs the tests; what they start would say it to tests that look at stderr.
os.environ.setdefault("PYTHONWARNINGS", f"ignore:{node_kernel.STALE}:RuntimeWarning")

FOR_THE_PLAIN_NODE = "patches or inherits from the node's code; `make test-pure` runs it"


def pytest_configure(config: pytest.Config) -> None:
    """See tests.support.examples."""
    examples.choose(config.getoption("markexpr", ""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What breaks the node's code from inside can't do so where that is compiled."""
    if node_kernel.NAME == "compiled":
        for item in items:
            if "plain_node" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=FOR_THE_PLAIN_NODE))


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
