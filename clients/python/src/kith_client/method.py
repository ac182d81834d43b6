"""What the client knows of a method: generated code has one `Method` for each call of the contract."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from google.protobuf.message import Message

from kith_client.v1.reasons import Reason

Req = TypeVar("Req", bound=Message)
Resp = TypeVar("Resp", bound=Message)
Batch: TypeAlias = tuple[str, str, int]
"""The fields of ids and of results, and how many ids one call takes."""


@dataclass(frozen=True)
class Method(Generic[Req, Resp]):
    """A method of the contract, and how its calls are repeated, split and continued."""

    path: str
    request: type[Req]
    response: type[Resp]
    form: str = "unary_stream"
    """How grpcio names the form of a stream."""
    repeat: bool = False
    """Whether the same bytes may be sent again: a read, or a write that has one effect."""
    id_field: str = ""
    """The field with the id of a write, or of each send of a batch."""
    batch: Batch | None = None
    """Set if a batch is split."""
    after: tuple[str, str, str] | None = None
    """Of an export: the field after which it continues, that of the records, and that of their ids."""

    def repeats(self, request: Req) -> bool:
        """Says whether this request may be sent again. An erasure that begins `again` may not."""
        return self.repeat and not getattr(request, "again", False)

    def with_id(self, request: Req) -> tuple[Req, str]:
        """Returns the request with an id, and the id. The request of the caller stays as it is."""
        if not self.id_field:
            return request, ""
        request = copy(request)
        for part in getattr(request, "messages", [request]):
            setattr(part, self.id_field, getattr(part, self.id_field) or uuid.uuid4().hex)
        return request, getattr(request, self.id_field, "")

    def next_part(self, request: Req, response: Resp) -> Req:
        """Returns the request that continues an export after a response."""
        if self.after and (records := getattr(response, self.after[1])):
            request = copy(request)
            setattr(request, self.after[0], getattr(records[-1], self.after[2]))
        return request


def next_page(request: Req, response: Message) -> Req | None:
    """Returns the request for the page after `response`, or None after the last one.

    A list goes on with its `next_page_token`. Messages go on with numbers while `more` is set.
    """
    following, answer = copy(request), cast(Any, response)
    fill: Any = following
    if hasattr(fill, "page_token"):
        fill.page_token = answer.next_page_token
        return following if fill.page_token else None
    if not answer.more or not answer.messages:
        return None
    last = answer.messages[-1].seq
    if hasattr(fill, "from_seq"):
        fill.from_seq = last + 1
    elif hasattr(fill, "before_seq"):
        fill.before_seq = last
    else:
        fill.seqs[:] = [seq for seq in fill.seqs if seq > last]
    return following


def copy(request: Req) -> Req:
    """Returns an equal message."""
    made = type(request)()
    made.CopyFrom(request)
    return made


def with_values(request: Req, field: str, values: Iterable[Any]) -> Req:
    """Returns the message with other values in a repeated field."""
    made = copy(request)
    made.ClearField(field)
    getattr(made, field).extend(values)
    return made


def left_out(result: Any) -> bool:
    """Says whether a result of a batch did not fit into the answer."""
    return "error" in result.DESCRIPTOR.fields_by_name and result.error.reason == Reason.ANSWER_TOO_LARGE
