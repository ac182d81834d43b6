"""The one type of error that calls raise."""

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import grpc
from google.rpc import error_details_pb2, status_pb2

from kith_client.v1 import result_pb2

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

_CODES = {code.value[0]: code for code in grpc.StatusCode}
# Without details of a node, these say that the answer was lost.
_LOST = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(eq=False)
class KithError(Exception):
    """A call that failed, or an item of a batch. Branch on `reason`, never on `message`."""

    code: grpc.StatusCode
    """The gRPC code."""
    message: str
    """Words for people. They may change."""
    reason: str = ""
    """A `Reason`, or one that a newer node knows. Empty if no node answered."""
    field: str = ""
    """The field of the request at fault, or an empty text."""
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What else the node says about the reason."""
    retry_delay: float | None = None
    """How many seconds to wait before the same request may succeed. None if the node names none."""
    request_id: str = ""
    """The `request_id` or `client_message_id` of a write: with it the same request may be sent again."""

    def __str__(self) -> str:
        """Returns code, reason and message."""
        return f"{self.code.name} {self.reason}: {self.message}"

    @property
    def outcome(self) -> str:
        """`not_applied` or `unknown` for a write, else an empty text. `unknown` if no node answered."""
        return self.metadata.get("outcome", "" if self.reason else "unknown")

    @property
    def until(self) -> datetime | None:
        """When the state that forbids the call ends, such as a mute."""
        until = self.metadata.get("until")
        return datetime.fromisoformat(until.replace("Z", "+00:00")) if until else None

    @classmethod
    def of_item(cls, error: result_pb2.ResultError) -> "KithError":
        """Returns the error of one item of a batch or an import."""
        code = _CODES.get(error.code, grpc.StatusCode.UNKNOWN)
        return cls(code, error.message, error.reason, error.field, error.metadata)


def from_rpc(failure: Any, request_id: str = "") -> KithError:
    """Returns the error of a call that grpcio has ended with `failure`."""
    error = KithError(failure.code(), failure.details() or "", request_id=request_id)
    for key, value in failure.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            _read_details(error, value)
    if not error.reason and error.code in _LOST:
        error.code = grpc.StatusCode.UNAVAILABLE
    return error


def _read_details(error: KithError, packed: bytes) -> None:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    request = error_details_pb2.BadRequest()
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Unpack(info) and info.domain == "kith":
            error.reason, error.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(retry):
            error.retry_delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif detail.Unpack(request) and request.field_violations:
            error.field = request.field_violations[0].field
    error.field = error.field or error.metadata.get("field", "")
