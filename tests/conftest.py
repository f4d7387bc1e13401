"""Settings for all tests.

Property tests are repeatable by default: the same code draws the same examples, so a red run can be run again. To look
for new examples, say `HYPOTHESIS_PROFILE=explore`.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("explore", settings.get_profile("repeatable"), derandomize=False, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
