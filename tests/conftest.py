"""What holds for all tests."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support import examples, kernels

# No test is judged by the clock: the machine may be busy with something else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell ignores Ctrl-C in what it puts into the background, and processes hand that on. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """See tests.support.examples."""
    examples.choose(config.getoption("markexpr", ""))


@pytest.fixture(scope="module", params=kernels.NAMES)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a module's tests on plain Python and, where it was built, on the compiled kernel.

    For hot rooms: `pytestmark = pytest.mark.usefixtures("kernel")`. What a test imports at the top of its
    module is that of the kernel, and so is what the project's own modules call.
    """
    kernels.use(request.param)
    yield request.param
    kernels.use(kernels.NAMES[-1])
