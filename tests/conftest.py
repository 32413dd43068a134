"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# No test is judged by the clock: the machine may be busy with something else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
