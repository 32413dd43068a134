"""What holds for all tests."""

import signal

from hypothesis import HealthCheck, settings

# No test is judged by the clock: the machine may be busy with something else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A shell ignores Ctrl-C in what it puts into the background, and processes hand that on. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
