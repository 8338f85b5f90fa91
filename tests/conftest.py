"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["spec_table", "cache_net", "trials_told"]

settings.register_profile(
    "default", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "soak", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("EVERTURN_PROFILE", "default"))
