"""The first frame of a connection, in both directions: who I am and which swarm I mean.

    frame = length (4 bytes, big-endian), MessagePack map with the key "peerd": "greeting" or "refusal"

Whoever dials speaks first. The other side looks the greeting over and answers with its own, or with a refusal in one
line that a person can act on, and closes. From then on the frames are those of `peerd/wire.py`. A map, so that peers of
another version can still read the version in it; unknown keys are ignored.

A greeting without a swarm id only asks: a newcomer that knows a contact's endpoint and nothing else learns overlay,
parameters and schema from the answer, and comes back as a member. No connection remains.

The greeting has a decoder and a size limit of its own, since nothing is known yet about who speaks. A length beyond the
limit is most likely not a length at all, but another protocol: "GET " is one of 1.2 GB.
"""

from struct import Struct as Layout
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from peerd.wire import LENGTH_BYTES
from protocols.model.bounds import ATTRIBUTES_MAX, ENDPOINT_MAX, ID_MAX, TEXT_MAX, Count, Finite

VERSION: Final = (1, 0)
"""Of the wire. The minor number grows when fields or messages are added, the major one when old peers cannot follow."""

GREETING_BYTES_MAX: Final = 128 * 1024
"""A schema of 128 attributes whose names have 128 characters of 4 bytes takes 77 KiB."""

_TEXT_MAX: Final = 300

Name: TypeAlias = Annotated[str, Meta(max_length=256)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Scalar: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)] | int | Finite | bool
Code: TypeAlias = Literal["version", "swarm", "overlay", "parameters", "schema", "identity", "busy"]


class Greeting(msgspec.Struct, frozen=True, kw_only=True, tag_field="peerd", tag="greeting"):
    version: tuple[Number, Number] = VERSION
    swarm_id: Name
    """Empty: I only ask."""
    swarm: Name = ""
    overlay: Name = ""
    parameters: Annotated[dict[Name, Scalar], Meta(max_length=256)] = {}
    schema: Annotated[list[Annotated[dict[Name, Scalar], Meta(max_length=16)]], Meta(max_length=ATTRIBUTES_MAX)] = []
    """The attributes in their order, as `Schema.to_dict()["attributes"]` has them."""
    schema_version: Count = 0
    peer: Annotated[str, Meta(max_length=ID_MAX)] = ""
    boot: Count = 0
    at: Annotated[str, Meta(max_length=ENDPOINT_MAX)] = ""
    """The TCP endpoint that the peer advertises."""
    dial: Count = 0
    """Which dial of its sender this is: the network's own number, to tell two connections apart. Leave it."""


class Refusal(msgspec.Struct, frozen=True, tag_field="peerd", tag="refusal"):
    code: Annotated[str, Meta(max_length=32)]
    """One of `Code`; another version may know others."""
    text: Annotated[str, Meta(max_length=1000)]
    """One clear line."""


First: TypeAlias = Greeting | Refusal


def refusal(code: Code, text: str) -> Refusal:
    return Refusal(code, text)


class BadGreeting(Exception):
    """What came is not the first frame of a peer. `answer` is what to say to it, if that makes sense."""

    def __init__(self, reason: str, answer: Refusal | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


class _Head(msgspec.Struct):
    """What every version of a greeting has."""

    peerd: str
    version: tuple[int, int]


_length: Final = Layout(">I")
_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(First)
_head_decoder: Final = msgspec.msgpack.Decoder(_Head)


def encode_first(first: First) -> bytes:
    """The whole frame."""
    content = _encode(first)
    if len(content) > GREETING_BYTES_MAX:
        raise ValueError(f"a greeting of {len(content)} bytes; at most {GREETING_BYTES_MAX}")
    return _length.pack(len(content)) + content


def compatible(theirs: tuple[int, int], ours: tuple[int, int] = VERSION) -> bool:
    """Peers of one minor version talk with those of the one before and the one after (contract)."""
    return theirs[0] == ours[0] and abs(theirs[1] - ours[1]) <= 1


def version_refusal(theirs: tuple[int, int]) -> Refusal:
    ours, other = (".".join(map(str, version)) for version in (VERSION, theirs))
    return Refusal("version", f"this peer speaks wire version {ours}, not {other}; run the same release on both")


class FirstFrame:
    """Collects the first frame from the pieces that come in; what follows it is kept in `rest`."""

    __slots__ = ("_pending", "rest")

    def __init__(self) -> None:
        self._pending = bytearray()
        self.rest = b""

    def __len__(self) -> int:
        """Bytes that have come so far."""
        return len(self._pending)

    def feed(self, data: bytes | memoryview) -> First | None:
        """The frame, once it is complete; `BadGreeting` if it never will be one."""
        pending = self._pending
        pending += data
        if len(pending) < LENGTH_BYTES:
            return None
        (size,) = _length.unpack_from(pending)
        if size > GREETING_BYTES_MAX:
            raise BadGreeting("it does not speak peerd's protocol")
        end = LENGTH_BYTES + size
        if len(pending) < end:
            return None
        self.rest = bytes(pending[end:])
        del pending[end:]
        return decode_first(bytes(pending[LENGTH_BYTES:]))


def decode_first(content: bytes) -> First:
    try:
        first: First = _decoder.decode(content)
    except (ValueError, RecursionError) as error:
        head = _head(content)
        if head is not None and not compatible(head.version):
            answer = version_refusal(head.version)
            raise BadGreeting(answer.text, answer) from None
        reason = str(error)[:_TEXT_MAX] if head is not None else "it does not speak peerd's protocol"
        raise BadGreeting(f"bad greeting: {reason}" if head is not None else reason) from None
    if isinstance(first, Greeting) and not compatible(first.version):
        answer = version_refusal(first.version)
        raise BadGreeting(answer.text, answer)
    return first


def _head(content: bytes) -> Any:
    try:
        return _head_decoder.decode(content)
    except (ValueError, RecursionError):
        return None
