"""The wire: frames, the codec for messages, and what keeps a hostile peer within limits. No input or output here.

    frame   = length (4 bytes, big-endian, of what follows), content
    content = MessagePack array [source slot, destination slot, message]
    message = MessagePack array [tag, field, ...]

The message stands at the end of its frame and is encoded by itself (`Codec.encode`), so one message to many
participants is encoded once and only the few bytes before it differ (`Codec.frame`).

**Limits without a second pass.** msgspec checks types while it decodes, but knows no limit on depth, and one on lengths
only where the type states it. A scan of the MessagePack headers before decoding would cost more in Python than the
decoding itself, so nothing is scanned. What is checked instead, and when:

- *Per frame*: the length, before a byte of the content is kept. Nothing on the wire can outgrow `Limits.frame_bytes`.
- *Once, when the codec is made*: the types. Every string, byte string and array that a message can hold must have a
  `Meta(max_length=...)` within the limits, floats must exclude NaN and infinity, types may be nested only so deep and
  never in themselves; types of no certain size (`Any`, `Raw`, dates, decimals) or no certain order (`set`) are refused.
  With such types the decoder itself keeps every limit, and refuses an array by its header, before it reads an element.
- *Never*: fields that are too many. Peers of the next version may append fields to a struct; the decoder skips them
  without building anything. Skipping recurses, so nonsense nested a thousand deep there ends as `TooDeep`.

What is left to an attacker is the size of a frame: a byte on the wire can at the worst become an object in memory.

**Errors** that come from a remote peer are values among the frames (`BadFrame`), so that one bad frame does not take
the good ones beside it along. A bad content costs its frame only. A bad length closes the decoder: where the next frame
begins is not known any more.

    WireError
    ├── BadMessage         a frame is refused; the stream goes on
    │   ├── Malformed      not one MessagePack value: cut off, followed by more, a reserved byte, text that is not UTF-8
    │   ├── Invalid        not a message of ours: unknown tag, wrong type, too long, a number or slot out of range
    │   └── TooDeep        nested beyond measure
    ├── FrameTooLarge      the length is beyond the limit; the decoder is closed
    └── Unencodable        local misuse: the message or slot cannot be put on the wire
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct as Layout
from typing import Any, Final, TypeAlias, Union

import msgspec
from msgspec import inspect

from protocols.model.bounds import BODY_BYTES_MAX, SLOT_MAX, Slot
from protocols.model.ids import PEER_SLOT
from protocols.overlay import Message

Buffer: TypeAlias = bytes | bytearray | memoryview

LENGTH_BYTES: Final = 4
"""The length before each frame."""

_REASON_MAX: Final = 200
"""Characters kept of the decoder's complaint: it may quote what a remote peer sent."""

_length: Final = Layout(">I")
_small_header: Final = Layout(">IBbb")  # MessagePack writes -1 to 127 as that one byte
_SMALL_MAX: Final = 127
_ARRAY_OF_3: Final = 0x93


class WireError(Exception):
    """Anything that cannot be put on the wire or be taken from it."""


class BadMessage(WireError):
    """A frame is refused; the stream goes on."""


class Malformed(BadMessage):
    """Not one MessagePack value."""


class Invalid(BadMessage):
    """MessagePack, but not a message of this codec."""


class TooDeep(BadMessage):
    """Nested beyond measure."""


class FrameTooLarge(WireError):
    """A frame says that it is longer than any may be. The stream cannot be read any further."""


class Unencodable(WireError):
    """Local misuse: the message or slot cannot be put on the wire."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a frame may hold. All but `frame_bytes` limit what the types of messages may allow."""

    frame_bytes: int = 256 * 1024
    """Content of a frame. Four events of the greatest size fit."""
    depth: int = 16
    """Arrays within arrays. A guess: twice what a shuffle of peer descriptors needs."""
    text_length: int = 16 * 1024
    """Characters in a string. A guess: 16 strings of the greatest size that an event may hold."""
    bytes_length: int = BODY_BYTES_MAX
    """Bytes in a byte string: an event's body."""
    items: int = 4096
    """Elements of an array. A guess: as many ids as one asks for at once."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A message as it came; `size` counts all its bytes on the wire."""

    src_slot: int
    dst_slot: int
    message: Message
    size: int


class BadFrame(msgspec.Struct, frozen=True):
    """A frame that was refused. After `FrameTooLarge` none follows: close the connection."""

    error: WireError
    size: int


class Codec:
    """Turns messages of the given types into bytes and back.

    Raises `TypeError` with one line per fault if a type cannot be held to the limits.
    """

    __slots__ = ("_decode_content", "_encode", "decode_own", "limits", "message_types")

    def __init__(self, message_types: Sequence[type[Message]], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.message_types = tuple(dict.fromkeys(message_types))
        found = faults(self.message_types, self.limits)
        if found:
            raise TypeError("\n".join(found))
        union: Any = Union[self.message_types]  # noqa: UP007 (a union of types known only at run time)
        self._encode = msgspec.msgpack.Encoder().encode
        self.decode_own: Callable[[Buffer], Message] = msgspec.msgpack.Decoder(union).decode
        """For what this very codec has encoded, and nobody had in their hands since: no refusal to be put in words."""
        self._decode_content: Callable[[Buffer], tuple[int, int, Message]] = msgspec.msgpack.Decoder(
            tuple[Slot, Slot, union]
        ).decode

    def encode(self, message: Message) -> bytes:
        """The message part of a frame. `Unencodable` if no peer would take it for its size, or nobody can write it."""
        try:
            encoded = self._encode(message)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise Unencodable(f"{type(message).__name__}: {error}") from error
        if len(encoded) + _HEADER_BYTES_MAX > self.limits.frame_bytes:
            raise Unencodable(f"{type(message).__name__}: {len(encoded)} bytes are too many for a frame")
        return encoded

    def decode(self, encoded: Buffer) -> Message:
        """The message that `encode` encoded; `BadMessage` if there is none."""
        try:
            return self.decode_own(encoded)
        except (ValueError, RecursionError) as error:
            raise _refusal(error) from None

    def frame(self, src_slot: int, dst_slot: int, encoded: bytes) -> bytes:
        """The frame that carries an encoded message from slot to slot."""
        if PEER_SLOT <= src_slot <= _SMALL_MAX and PEER_SLOT <= dst_slot <= _SMALL_MAX:
            return _small_header.pack(len(encoded) + 3, _ARRAY_OF_3, src_slot, dst_slot) + encoded
        if not (PEER_SLOT <= src_slot <= SLOT_MAX and PEER_SLOT <= dst_slot <= SLOT_MAX):
            raise Unencodable(f"no such slot: {src_slot} or {dst_slot}")
        header = b"\x93" + self._encode(src_slot) + self._encode(dst_slot)
        return _length.pack(len(header) + len(encoded)) + header + encoded

    @staticmethod
    def frame_size(src_slot: int, dst_slot: int, encoded_length: int) -> int:
        """How many bytes `frame` returns for an encoded message of that length."""
        if src_slot <= _SMALL_MAX and dst_slot <= _SMALL_MAX:
            return LENGTH_BYTES + 3 + encoded_length
        return LENGTH_BYTES + 1 + _slot_size(src_slot) + _slot_size(dst_slot) + encoded_length


def _slot_size(slot: int) -> int:
    if slot <= _SMALL_MAX:
        return 1
    if slot < 1 << 8:
        return 2
    return 3 if slot < 1 << 16 else 5


_HEADER_BYTES_MAX: Final = 1 + 2 * _slot_size(SLOT_MAX)


def _refusal(error: Exception) -> BadMessage:
    """What the decoder's exception means here. (It lets some of Python's own pass: these two.)"""
    if isinstance(error, RecursionError):
        return TooDeep("nested beyond measure")
    if isinstance(error, UnicodeDecodeError):
        return Malformed("text is not UTF-8")
    kind = Invalid if isinstance(error, msgspec.ValidationError) else Malformed
    return kind(str(error)[:_REASON_MAX])


class Decoder:
    """Takes the frames out of a stream of bytes that comes in pieces.

    Only the beginning of a frame that is not complete yet is kept, at most `frame_bytes` and the piece just fed; frames
    that lie within one piece are decoded where they lie. A byte is copied a bounded number of times however small the
    pieces are.
    """

    __slots__ = ("_decode_content", "_frame_bytes_max", "_pending", "clean", "closed")

    def __init__(self, codec: Codec) -> None:
        self.closed = False
        self.clean = True
        """Whether nothing that the last `feed` returned was refused: all are frames."""
        self._decode_content = codec._decode_content
        self._frame_bytes_max = codec.limits.frame_bytes
        self._pending = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much of an incomplete frame has come; 0 at a boundary between frames."""
        return len(self._pending)

    def feed(self, data: Buffer) -> list[Frame | BadFrame]:
        """The frames that are complete now, in order. Keeps no reference to `data`: its owner may write over it.

        Once `closed`, whatever still comes is ignored.
        """
        if self.closed:
            return []
        pending = self._pending
        if pending:
            pending += data
            with memoryview(pending) as view:  # given back at once: it keeps its owner from shrinking
                taken, items = self._take(view)
            del pending[:taken]
        else:
            taken, items = self._take(data)
            if taken < len(data):
                pending += memoryview(data)[taken:]
        return items

    def _take(self, data: Buffer) -> tuple[int, list[Frame | BadFrame]]:
        """The complete frames in `data`, and where they end."""
        items: list[Frame | BadFrame] = []
        decode, length_at, size_max = self._decode_content, _length.unpack_from, self._frame_bytes_max
        start = 0
        self.clean = True
        end = len(data)
        while (content := start + LENGTH_BYTES) <= end:
            (size,) = length_at(data, start)
            if size > size_max:
                self.closed, self.clean = True, False
                items.append(BadFrame(FrameTooLarge(f"{size} bytes, at most {size_max}"), LENGTH_BYTES))
                return end, items  # nothing after it can be read
            stop = content + size
            if stop > end:
                break
            try:
                src_slot, dst_slot, message = decode(data[content:stop])
            except (ValueError, RecursionError) as error:
                self.clean = False
                items.append(BadFrame(_refusal(error), stop - start))
            else:
                items.append(Frame(src_slot, dst_slot, message, stop - start))
            start = stop
        return start, items


# --- What types a codec takes -----------------------------------------------------------------------------------------

_Path: TypeAlias = tuple[str, ...]
_Faults: TypeAlias = Iterator[tuple[_Path, str]]
_FIXED: Final = (inspect.BoolType, inspect.IntType, inspect.NoneType, inspect.LiteralType, inspect.EnumType)


def faults(message_types: Sequence[type[Message]], limits: Limits) -> list[str]:
    """Why a codec does not take these types, one line each; empty if it does."""
    if not message_types:
        return ["a codec needs message types"]
    found: list[str] = []
    for type_, info in zip(message_types, inspect.multi_type_info(message_types)):
        if not isinstance(info, inspect.StructType):
            found.append(f"{type_}: not a msgspec Struct")
            continue
        if info.tag is None:
            found.append(f"{type_.__name__}: a message needs a tag")
        if not type_.__struct_config__.frozen:
            found.append(f"{type_.__name__}: a message must be frozen")
        found += [f"{'.'.join(path)}: {text}" for path, text in _faults_in(info, (type_.__name__,), (), limits)]
    return found


def _faults_in(info: inspect.Type, path: _Path, within: tuple[type, ...], limits: Limits) -> _Faults:
    """The faults of a type that stands at `path`, inside these structs. An array on the way is one part of the path."""
    if len(path) - 1 > limits.depth:
        yield path, f"nested deeper than {limits.depth}"
        return
    match info:
        case inspect.Metadata(type=inner):
            yield from _faults_in(inner, path, within, limits)
        case inspect.StructType(cls=cls, fields=fields, array_like=array_like):
            if not array_like:
                yield path, f"{cls.__name__} must be array_like"
            if cls in within:
                yield path, f"{cls.__name__} is nested in itself"
                return
            for field in fields:
                yield from _faults_in(field.type, (*path, field.name), (*within, cls), limits)
        case inspect.StrType(max_length=length):
            yield from _faults_of_length(length, limits.text_length, path)
        case inspect.BytesType(max_length=length):
            yield from _faults_of_length(length, limits.bytes_length, path)
        case inspect.FloatType(ge=ge, gt=gt, le=le, lt=lt):
            if (ge is None and gt is None) or (le is None and lt is None):
                yield path, "a float needs bounds on both sides, which exclude NaN (protocols.model.bounds.Finite)"
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from _faults_of_length(info.max_length, limits.items, path)
            yield from _faults_in(item, (*path, "*"), within, limits)
        case inspect.DictType(key_type=key, value_type=value, max_length=length):
            yield from _faults_of_length(length, limits.items, path)
            yield from _faults_in(key, (*path, "key"), within, limits)
            yield from _faults_in(value, (*path, "value"), within, limits)
        case inspect.TupleType(item_types=types):
            for index, inner in enumerate(types):
                yield from _faults_in(inner, (*path, str(index)), within, limits)
        case inspect.UnionType(types=types):
            for inner in types:
                yield from _faults_in(inner, path, within, limits)
        case _ if not isinstance(info, _FIXED):
            yield path, f"{type(info).__name__.removesuffix('Type')} has no bound that the decoder could keep"


def _faults_of_length(length: int | None, limit: int, path: _Path) -> _Faults:
    if length is None:
        yield path, f"needs a Meta(max_length=...) of at most {limit}"
    elif length > limit:
        yield path, f"max_length {length} is above the limit {limit}"
