"""Reads bytes from text: hexadecimal digits, or dumps of xxd, hexdump -C, tcpdump -x and socat -x."""

import re
from typing import Final

_XXD: Final = re.compile(
    r"\s*(?:0x)?[0-9a-fA-F]{4,}:\s+((?:[0-9a-fA-F]{2})+(?: (?:[0-9a-fA-F]{2})+)*)(?=\s|$)"
)
"""A line of xxd: offset and a colon, groups of bytes with one space between, and after two spaces their
text."""
_HEXDUMP: Final = re.compile(
    r"([0-9a-fA-F]{8})  ([0-9a-fA-F]{2}(?: {1,2}[0-9a-fA-F]{2}){0,15})(?: *$|\s*\|.*\|$)"
)
_HEXDUMP_END: Final = re.compile(r"[0-9a-fA-F]{7,8}\s*")
_SOCAT_HEAD: Final = re.compile(r"([<>]) \d{4}/\d\d/\d\d .*\blength=\d+\b.*")
_TCPDUMP_HEAD: Final = re.compile(
    r"(?:\S+ )?\d\d:\d\d:\d\d\.\d+ (?:\S+ +\w+ +)?IP6? \S+\.(\S+) > \S+\.(\S+): .*"
)
_NOISE: Final = re.compile(r"0[xX]|\\x|[\s,:;]")
_DIGITS: Final = re.compile(r"[0-9a-fA-F]*")


class HexError(ValueError):
    """A text that can't be read as bytes; the message names the line and says what to do."""


class HexText:
    """The bytes of a text, split by sender if the text names the senders. The constructor raises HexError.

    `client` has the bytes behind `>`, `broker` those behind `<`: at the begin of a line of digits, or, with
    socat, in a line of its own that counts for the lines behind it. Of tcpdump's packets the TCP payloads are
    read; the side with the lower port is the broker. All other bytes are `plain`.
    """

    def __init__(self, text: str) -> None:
        self.plain = bytearray()
        self.client = bytearray()
        self.broker = bytearray()
        self._dumped = 0
        side, packet = self.plain, bytearray()
        sender: bytearray | None = None
        for number, line in enumerate(text.splitlines(), 1):
            head, summary = _SOCAT_HEAD.fullmatch(line), _TCPDUMP_HEAD.fullmatch(line)
            if summary:
                if sender is not None:
                    sender += _payload(packet, number)
                sender, packet = self._sender(summary, number), bytearray()
                side = packet
            elif head or line.strip() in (">", "<"):
                side = self.client if line.strip()[0] == ">" else self.broker
            elif line[:2] in ("> ", "< "):
                (self.client if line[0] == ">" else self.broker).extend(self._bytes(line[2:], number))
            else:
                side += self._bytes(line, number)
        if sender is not None:
            sender += _payload(packet, number)

    def _sender(self, summary: re.Match[str], number: int) -> bytearray:
        """The bytes of the sender whom a summary line of tcpdump names."""
        ports = summary.groups()
        if not all(port.isdigit() for port in ports):
            raise HexError(f"line {number} has names for ports; run tcpdump with -nn")
        return self.client if int(ports[0]) > int(ports[1]) else self.broker

    def _bytes(self, line: str, number: int) -> bytes:
        dump, hexdump = _XXD.match(line), _HEXDUMP.fullmatch(line)
        if dump:
            line = dump.group(1)
        elif hexdump and int(hexdump.group(1), 16) in (0, self._dumped):
            line = hexdump.group(2)
        elif self._dumped and _HEXDUMP_END.fullmatch(line):
            return b""
        elif line.strip() == "*":
            raise HexError(f"line {number}: '*' stands for lines left out; dump again with all of them (-v)")
        digits = _NOISE.sub("", line)
        if not _DIGITS.fullmatch(digits):
            # Bytes, and behind two spaces what they mean: socat -x -v, and the examples of our documents.
            digits = _NOISE.sub("", re.split(r" {2,}|\t", line.strip(), maxsplit=1)[0])
        if not _DIGITS.fullmatch(digits):
            shown = line.strip()[:60]
            raise HexError(f"line {number} holds no hexadecimal digits and is no line of a dump: {shown!r}")
        if len(digits) % 2:
            raise HexError(f"line {number} has {len(digits)} hexadecimal digits; two make a byte")
        if dump or hexdump:
            self._dumped = (0 if hexdump and not int(hexdump.group(1), 16) else self._dumped) + len(
                digits
            ) // 2
        return bytes.fromhex(digits)


def _payload(packet: bytearray, number: int) -> bytes:
    """The TCP payload of an IP packet. `number`: the line behind the packet, for errors."""
    if packet and packet[0] >> 4 == 6:
        start, end = 40, 40 + int.from_bytes(packet[4:6], "big")
    else:
        start, end = (packet[0] & 15) * 4 if packet else 20, int.from_bytes(packet[2:4], "big")
    if len(packet) < max(end, start + 20):
        raise HexError(f"the packet before line {number} is not all there; run tcpdump with -x -s 0")
    return bytes(packet[start + (packet[start + 12] >> 4) * 4 : end])


def is_text(data: bytes) -> bool:
    """Whether a file is a text dump, not captured bytes: frames have bytes that no text has."""
    return all(32 <= byte < 127 or byte in b"\t\r\n" for byte in data[:4096])
