"""The loads that measure the broker, the settings of their topics, and the bars.

The C++ TANK was measured once, in turn with the same broker in C: server microseconds per request, those of
the broker in C in brackets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.harness.load_generator import Load
from benchmarks.harness.servers import Kernel


class Measure(Enum):
    """A compared figure of a load: its name, unit, and number of decimals."""

    CPU = ("CPU a request", "µs", 2)
    MESSAGES = ("messages a second", "M", 2)
    BYTES = ("throughput", "MB/s", 0)
    P50 = ("p50", "µs", 0)

    def __init__(self, title: str, unit: str, digits: int) -> None:
        self.title = title
        self.unit = unit
        self.digits = digits

    def of(self, load: Load) -> float:
        match self:
            case Measure.CPU:
                return load.server_us
            case Measure.MESSAGES:
                return load.messages_s / 1e6
            case Measure.BYTES:
                return load.mb_s
            case Measure.P50:
                return load.p50_us


class Against(Enum):
    """The figure that a limit applies to."""

    ALONE = "ours is compared with the limit"
    TIMES = "ours is compared with the limit times C"
    PLUS = "ours is compared with C and the limit"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: our figure is to be at least or at most `limit`, alone or against C in the same round."""

    measure: Measure
    against: Against
    limit: float
    at_least: bool = False

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        match self.against:
            case Against.TIMES:
                return f"{sign} {self.limit:g} × C"
            case Against.PLUS:
                return f"{sign} C + {self.limit:g} {self.measure.unit}"
            case Against.ALONE:
                return f"{sign} {self.limit:g} {self.measure.unit}"


@dataclass(frozen=True, slots=True)
class Case:
    """A load, run on each server in turn, each time on a fresh broker."""

    name: str
    load: str
    """Arguments of `tankload`, without those of time."""
    fill: str = ""
    """A load that fills the log before this one reads it; "": none."""
    settings: str = ""
    """The settings of the topic that the load creates."""
    ceiling: tuple[str, ...] = ()
    """Further arguments of the broker in C."""
    bars: Mapping[Kernel, tuple[Bar, ...]] = field(default_factory=dict)
    recorded: str = ""


# Small and few segments: a run writes gigabytes, and the host may take back memory that a virtual machine has
# not used for some seconds. So the log must reuse its memory, or the host's speed would be measured.
KEEP_LITTLE = "log.segment.bytes=67108864\nretention.segments.count=2\n"
REPLICATED = KEEP_LITTLE + "flush=replicated\n"
DISK = KEEP_LITTLE + "flush=disk\n"
FILL = "produce -C -t full -s 100 -m 100 -c 4 -d 8 -w 0 -T 60 -L 200"


def cpu(limit: float) -> Bar:
    """Processor time per request, as a multiple of C's."""
    return Bar(Measure.CPU, Against.TIMES, limit)


def cpu_alone(limit_us: float) -> Bar:
    """Processor time per request, in microseconds."""
    return Bar(Measure.CPU, Against.ALONE, limit_us)


def throughput(limit: float) -> Bar:
    """Bytes a second, as a share of C's."""
    return Bar(Measure.BYTES, Against.TIMES, limit, at_least=True)


def p50(limit_us: float) -> Bar:
    """Microseconds above C's."""
    return Bar(Measure.P50, Against.PLUS, limit_us)


def each(compiled: tuple[Bar, ...], pure: tuple[Bar, ...]) -> dict[Kernel, tuple[Bar, ...]]:
    return {Kernel.COMPILED: compiled, Kernel.PURE: pure}


def cases() -> Iterator[Case]:
    """All loads, those with a bar first."""
    yield produce("100x1 64 conns x 1", each((cpu(1.5),), (cpu(2),)), tank(8.5, 5.3))
    a_million = Bar(Measure.MESSAGES, Against.ALONE, 1, at_least=True)
    yield produce("100x1 8 conns x 64", each((cpu(2), a_million), (cpu_alone(2.5),)), tank(6.0, 0.19))
    for bundle, recorded in (("100x10", tank(6.0, 0.66)), ("1Kx1", tank(6.9, 0.63))):
        yield produce(f"{bundle} 8 conns x 64", each((cpu(1.7),), (cpu_alone(3),)), recorded)
    for bundle, recorded in (("100x100", tank(20.8, 4.3)), ("1Kx10", tank(18.5, 4.1))):
        yield produce(f"{bundle} 8 conns x 64", each((cpu(1.3),), (cpu(1.8),)), recorded)
    large = (cpu(1.1), throughput(0.9))
    yield produce("64Kx1 8 conns x 8", each(large, large), tank(57.9, 27.9))
    for shape in ("64Kx1 8 conns x 8", "100x10 8 conns x 64"):
        yield flushed(shape, each((throughput(0.85),), (throughput(0.75),)))
    for size, recorded in (("64K", tank(27, 13.8)), ("1M", tank(391, 151))):
        yield consume(size, each((cpu(1.15),), (cpu(1.25),)), recorded)
    yield Case(
        "paced 10000/s", "paced -C -s 100 -r 10000 -c 4", settings=REPLICATED,
        bars=each((p50(30),), (p50(50),)), recorded="+ 0 µs",
    )  # fmt: skip
    yield Case(
        "tail 10000/s", "tail -C -s 100 -r 10000", settings=REPLICATED,
        bars=each((p50(50),), (p50(80),)), recorded="+ 15 µs",
    )  # fmt: skip
    for shape in ("100x1 1 conn x 64", "100x100 1 conn x 64", "1Kx100 8 conns x 64", "64Kx1 1 conn x 64"):
        yield produce(shape, {}, "")
    shape = "100x1 8 conns x 64"
    yield Case(f"produce {shape}, 4 partitions", f"{shaped(shape)} -P 4", settings=REPLICATED)
    yield consume("16M", {}, "")
    yield Case("paced 1000/s", "paced -C -s 100 -r 1000 -c 4", settings=REPLICATED)
    yield Case(
        "disk paced 1000/s", "paced -C -s 100 -r 1000 -c 4", settings=DISK, ceiling=("--fsync", "group")
    )


SIZES = {"100": 100, "1K": 1024, "64K": 65536}


def shaped(shape: str) -> str:
    """The arguments for a text like "100x10 8 conns x 64": size x messages of a bundle, connections x
    requests under way on each."""
    bundle, connections, _, _, depth = shape.split()
    size, messages = bundle.split("x")
    return f"produce -C -s {SIZES[size]} -m {messages} -c {connections} -d {depth}"


def tank(us: float, ceiling_us: float) -> str:
    """The recorded times of the C++ TANK per request, and of the broker in C in turn with it."""
    return f"{us:g} ({ceiling_us:g}) µs, {us / ceiling_us:.2f} ×"


def produce(shape: str, bars: Mapping[Kernel, tuple[Bar, ...]], recorded: str) -> Case:
    return Case(f"produce {shape}", shaped(shape), settings=REPLICATED, bars=bars, recorded=recorded)


def flushed(shape: str, bars: Mapping[Kernel, tuple[Bar, ...]]) -> Case:
    """A load that both brokers acknowledge only after an fsync."""
    return Case(
        f"disk {shape}",
        shaped(shape),
        settings=DISK,
        ceiling=("--fsync", "group"),
        bars=bars,
        recorded="none",
    )


def consume(size: str, bars: Mapping[Kernel, tuple[Bar, ...]], recorded: str) -> Case:
    """Fetches of about this size; from the second pass on the generator drops the bytes unread."""
    fetch = {"64K": 65536, "1M": 1 << 20, "16M": 16 << 20}[size]
    load = f"consume -t full -f {fetch} --bytes-only"
    return Case(f"consume {size} bytes", load, fill=FILL, bars=bars, recorded=recorded)
