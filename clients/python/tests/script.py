"""A node that answers as a test says, and keeps what it got."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from kith_client.method import Method
from kith_client.v1 import methods
from kith_client.v1.contract import CONTRACT

METHODS = {found.path: found for found in vars(methods).values() if isinstance(found, Method)}


@dataclass
class Refusal:
    """An error that a node answers."""

    code: grpc.StatusCode
    reason: str = ""
    retry_delay: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    def packed(self) -> bytes:
        status = status_pb2.Status(code=self.code.value[0])
        details: list[Message] = []
        if self.reason:
            details.append(
                error_details_pb2.ErrorInfo(domain="kith", reason=self.reason, metadata=self.metadata)
            )
        if self.retry_delay is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMicroseconds(int(self.retry_delay * 1e6))
            details.append(retry)
        for detail in details:
            packed = Packed()
            packed.Pack(detail)
            status.details.append(packed)
        made: bytes = status.SerializeToString()
        return made


@dataclass
class Got:
    """A try that arrived."""

    path: str
    data: bytes
    metadata: list[tuple[str, str]]
    left: float | None

    def values(self, key: str) -> list[str]:
        return [value for name, value in self.metadata if name == key]

    def message(self) -> Any:
        return METHODS[self.path].request.FromString(self.data)


class Node(grpc.GenericRpcHandler):
    """A server whose answers are taken in order: a message, a list for a stream, or a refusal."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answers: list[Any] = []
        self.session = ""
        self.contract: str | None = str(CONTRACT)
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        path = details.method
        if METHODS[path].form == "stream_stream":
            return grpc.stream_stream_rpc_method_handler(
                lambda parts, context: self._stream(path, b"".join(parts), context)
            )
        if isinstance(self.answers[0] if self.answers else None, list):
            return grpc.unary_stream_rpc_method_handler(
                lambda data, context: self._stream(path, data, context)
            )
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._unary(path, data, context))

    def _unary(self, path: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        return self._answer(self._take(path, data, context), context)

    def _stream(self, path: str, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        for answer in self._take(path, data, context):
            if answer is OPEN:
                ended = threading.Event()
                context.add_callback(ended.set)
                ended.wait(10)
            else:
                yield self._answer(answer, context)

    def _take(self, path: str, data: bytes, context: grpc.ServicerContext) -> Any:
        metadata = [(key, str(value)) for key, value in context.invocation_metadata()]
        headers: list[tuple[str, str | bytes]] = [("kith-session", self.session)] if self.session else []
        if self.contract is not None:
            headers.append(("kith-contract", self.contract))
        context.send_initial_metadata(tuple(headers))
        with self._lock:
            self.got.append(Got(path, data, metadata, context.time_remaining()))
            return self.answers.pop(0) if self.answers else METHODS[path].response()

    def _answer(self, answer: Any, context: grpc.ServicerContext) -> bytes:
        if callable(answer):
            answer = answer()
        if isinstance(answer, Refusal):
            context.set_trailing_metadata((("grpc-status-details-bin", answer.packed()),))
            context.abort(answer.code, "refused")
        packed: bytes = answer.SerializeToString()
        return packed


OPEN: Callable[[], None] = lambda: None  # noqa: E731
"""The stream stays open here, until the client closes it."""
