"""Read by each Python process that has this folder on its path: it announces Iggy's feature level, which is
not announced yet. For tests alone."""

import contextlib

with contextlib.suppress(ImportError):
    from tank_protos import feature_levels

    feature_levels.OWN = feature_levels.Levels(feature_levels.FIRST, feature_levels.IGGY)  # type: ignore[misc]
