"""Mistakes of ours that are met while several things are done: the others go on."""

import logging

from tank_node.metrics import Metrics

logger = logging.getLogger(__name__)


def report_bug(metrics: Metrics, what: str) -> None:
    """Counts and logs the exception that is being handled. what: a sentence on what is not done."""
    metrics.errors["group", "internal_error"] += 1
    logger.exception("a bug of ours: %s; others go on, please report it", what)
