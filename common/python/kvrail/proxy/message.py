"""Heads of HTTP/1.1 messages: bytes to values, and values to bytes.

Strict, because the bytes come from outside: two readers of a head that is not clear may see
different messages in it. What RFC 9112 lets a reader refuse is refused.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = [
    "AnswerHead",
    "Framing",
    "HEADERS_MAX",
    "HEAD_BYTES_MAX",
    "Headers",
    "Kind",
    "MessageError",
    "RequestHead",
    "answer_framing",
    "chunk_length",
    "end_to_end",
    "parse_answer",
    "parse_request",
    "render",
    "request_framing",
    "stays_open",
    "value_of",
]

HEAD_BYTES_MAX = 32768
HEADERS_MAX = 100
LENGTH_DIGITS_MAX = 15

Headers = tuple[tuple[str, str], ...]  # names in lower case

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
TARGET = re.compile(r"/[\x21-\x7e]*")
REQUEST_LINE = re.compile(r"(\S+) (\S+) HTTP/(\d)\.(\d)")
STATUS_LINE = re.compile(r"HTTP/1\.(\d) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?")
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")

# Headers of one connection; a proxy does not pass them on.
HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade".split()
)


class MessageError(Exception):
    """A message that cannot be read. `status` is the answer to a client that sent it."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    target: str
    minor: int  # of the version 1.x
    headers: Headers

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class AnswerHead:
    status: int
    reason: str
    minor: int
    headers: Headers


class Kind(enum.Enum):
    """How the end of a body is known."""

    NONE = enum.auto()
    LENGTH = enum.auto()
    CHUNKED = enum.auto()
    CLOSE = enum.auto()


@dataclass(frozen=True, slots=True)
class Framing:
    kind: Kind
    length: int = 0


def _lines(head: bytes) -> list[str]:
    lines = head.decode("latin-1").split("\r\n")
    if len(lines) - 1 > HEADERS_MAX:
        raise MessageError(f"the message has more than {HEADERS_MAX} header lines", 431)
    if any("\r" in line or "\n" in line for line in lines):
        raise MessageError("a line of the head ends in CR or LF alone, instead of CR LF")
    return lines


def _headers(lines: Iterable[str]) -> Headers:
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        value = value.strip(" \t")
        if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
            raise MessageError(f"this header line cannot be read: {line[:80]!r}")
        headers.append((name.lower(), value))
    return tuple(headers)


def parse_request(head: bytes) -> RequestHead:
    """`head` is all before the empty line, without the line end before it."""
    first, *rest = _lines(head)
    match = REQUEST_LINE.fullmatch(first)
    if not match or not TOKEN.fullmatch(match[1]):
        raise MessageError(f"this is not a request of HTTP: {first[:80]!r}")
    if match[3] != "1":
        raise MessageError(f"HTTP/{match[3]}.{match[4]} is not spoken here: use HTTP/1.1", 505)
    if not TARGET.fullmatch(match[2]):
        raise MessageError(f"the target of a request must be a path, not {match[2][:80]!r}")
    headers = _headers(rest)
    minor = int(match[4])
    if minor >= 1 and len(_values(headers, "host")) != 1:
        raise MessageError("a request of HTTP/1.1 must have one header Host")
    return RequestHead(match[1], match[2], minor, headers)


def parse_answer(head: bytes) -> AnswerHead:
    first, *rest = _lines(head)
    match = STATUS_LINE.fullmatch(first)
    if not match:
        raise MessageError(f"this is not an answer of HTTP/1.1: {first[:80]!r}")
    return AnswerHead(int(match[2]), match[3] or "", int(match[1]), _headers(rest))


def _values(headers: Headers, name: str) -> list[str]:
    return [value for key, value in headers if key == name]


def value_of(headers: Headers, name: str) -> str | None:
    """The first value of that name, which is in lower case."""
    return next(iter(_values(headers, name)), None)


def _tokens(headers: Headers, name: str) -> set[str]:
    """The words of a header that is a list."""
    words = ",".join(_values(headers, name)).split(",")
    return {word.strip(" \t").lower() for word in words} - {""}


def _framing(headers: Headers, minor: int) -> Framing | None:
    codings = _values(headers, "transfer-encoding")
    lengths = set(_values(headers, "content-length"))
    if codings and lengths:
        raise MessageError("the message has both Transfer-Encoding and Content-Length")
    if codings:
        if minor < 1:
            raise MessageError("HTTP/1.0 has no Transfer-Encoding")
        if len(codings) > 1 or codings[0].lower() != "chunked":
            raise MessageError(
                f"Transfer-Encoding must be chunked, not {', '.join(codings)[:80]!r}", 501
            )
        return Framing(Kind.CHUNKED)
    if not lengths:
        return None
    length = lengths.pop()
    if lengths or not re.fullmatch(rf"[0-9]{{1,{LENGTH_DIGITS_MAX}}}", length):
        raise MessageError(f"Content-Length must be one number, not {length[:80]!r}")
    return Framing(Kind.LENGTH, int(length))


def request_framing(head: RequestHead) -> Framing:
    return _framing(head.headers, head.minor) or Framing(Kind.NONE)


def answer_framing(head: AnswerHead) -> Framing:
    """Of the answer to a GET or a POST."""
    if head.status < 200 or head.status in (204, 304):
        return Framing(Kind.NONE)
    return _framing(head.headers, head.minor) or Framing(Kind.CLOSE)


def stays_open(head: RequestHead) -> bool:
    """Whether the client wants to send more requests over its connection."""
    words = _tokens(head.headers, "connection")
    return "close" not in words and (head.minor >= 1 or "keep-alive" in words)


def chunk_length(line: bytes) -> int:
    """Of the line before a chunk."""
    match = CHUNK_LINE.fullmatch(line)
    if not match:
        raise MessageError(f"the length of a chunk cannot be read: {line[:40]!r}")
    return int(match[1], 16)


def end_to_end(headers: Headers, drop: Iterable[str] = ()) -> Headers:
    """The headers that a proxy passes on, without those of one connection and those in `drop`."""
    dropped = HOP_BY_HOP | _tokens(headers, "connection") | set(drop)
    return tuple((name, value) for name, value in headers if name not in dropped)


def render(first_line: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [first_line, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
