"""Protocol buffers on the wire: fields of messages, read and written. Only what Chakra's messages need.

The encoding is that of protobuf.dev/programming-guides/encoding; nothing of a message is trusted.
"""

import struct
from collections.abc import Iterable, Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST = 10  # bytes of a varint


class Malformed(ValueError):
    """Bytes that are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends) of a varint of at most 64 bits."""
    value = 0
    for i in range(_LONGEST):
        if at + i >= len(data):
            raise Malformed("it ends within a number")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise Malformed("a number is longer than 64 bits")


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of each field of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if kind == VARINT:
            value, at = varint(data, at)
        elif kind in (FIXED64, FIXED32, BYTES):
            size = 8 if kind == FIXED64 else 4
            if kind == BYTES:
                size, at = varint(data, at)
            if at + size > len(data):
                raise Malformed("it ends within a field")
            value, at = data[at : at + size], at + size
        else:
            raise Malformed(f"a field has the unknown wire type {kind}")
        if not number:
            raise Malformed("a field has the number 0")
        yield number, kind, value


def messages(data: bytes) -> Iterator[bytes]:
    """Messages that follow each other, each behind its length."""
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        if at + size > len(data):
            raise Malformed("it ends within a message")
        yield data[at : at + size]
        at += size


def packed(value: int | bytes) -> list[int]:
    """The numbers of a repeated field, packed or single."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        found.append(number)
    return found


def signed(value: int) -> int:
    """A varint as a signed 64-bit number."""
    return value - (1 << 64) if value >> 63 else value


def double(value: bytes) -> float:
    """Eight or four bytes as a number."""
    return float(struct.unpack("<d" if len(value) == 8 else "<f", value)[0])


# ---- writing ------------------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    """A varint; negative ones as 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(field: int, value: int) -> bytes:
    """A field of a whole number."""
    return number(field << 3 | VARINT) + number(value)


def text(field: int, value: str | bytes) -> bytes:
    """A field of text or of a message."""
    data = value.encode() if isinstance(value, str) else value
    return number(field << 3 | BYTES) + number(len(data)) + data


def integers(field: int, values: Iterable[int]) -> bytes:
    """A packed field; nothing where it is empty."""
    data = b"".join(map(number, values))
    return text(field, data) if data else b""


def delimited(message: bytes) -> bytes:
    """A message behind its length."""
    return number(len(message)) + message
