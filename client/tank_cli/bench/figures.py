"""The figures of a benchmark, rates and latencies, and their tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from tank_cli.shell.figures import bytes_text, count_text, micros_text, seconds_text
from tank_cli.shell.output import Json, print_facts, print_json

PERCENTILES = (("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))


@dataclass(slots=True, frozen=True)
class Measured:
    """The result of one benchmark. `latencies_s`: lists of seconds, by the event that was timed, e.g.
    "ack"."""

    bench: str
    topic: str
    messages: int
    size_bytes: int
    seconds: float
    latencies_s: dict[str, list[float]]


def percentile(rising: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed (nearest rank). There is at least one."""
    rank = max(1, -int(-share * len(rising) // 1))
    return rising[min(rank, len(rising)) - 1]


def print_measured(measured: Measured, as_json: bool) -> None:
    """The closing table, or JSON."""
    if as_json:
        print_json(measured_json(measured))
        return
    facts = [
        ("topic", measured.topic),
        ("messages", f"{count_text(measured.messages)} in {seconds_text(measured.seconds)}"),
        ("rate", f"{count_text(round(measured.messages / measured.seconds))} messages/s"),
        ("throughput", f"{bytes_text(measured.size_bytes / measured.seconds)}/s"),
    ]
    for name, seconds in measured.latencies_s.items():
        if seconds:
            rising = sorted(seconds)
            figures = [f"{label} {micros_text(percentile(rising, share))}" for label, share in PERCENTILES]
            facts.append((f"{name} latency", "  ".join(figures)))
    print_facts(facts)


def measured_json(measured: Measured) -> dict[str, Json]:
    """The shape of `tank bench … --output json`."""
    latencies: dict[str, Json] = {}
    for name, seconds in measured.latencies_s.items():
        rising = sorted(seconds)
        latencies[name] = {
            label: round(percentile(rising, share) * 1000, 4) if rising else None
            for label, share in PERCENTILES
        }
    return {
        "bench": measured.bench,
        "topic": measured.topic,
        "messages": measured.messages,
        "bytes": measured.size_bytes,
        "seconds": round(measured.seconds, 6),
        "messages_per_s": round(measured.messages / measured.seconds, 1),
        "bytes_per_s": round(measured.size_bytes / measured.seconds, 1),
        "latency_ms": latencies,
    }
