"""Processes that say that they know the level of Iggy's names, before this version's own say so."""

from typing import Final

from tank_protos.feature_levels import IGGY, OWN, Levels

IGGY_LEVELS: Final = Levels(OWN.lowest, IGGY)
