"""Connections over grpcio."""

import json
import random
import ssl
import threading
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import grpc
import grpc.aio

from kith_client.errors import Metadata

Sent: TypeAlias = tuple[tuple[str, str], ...]
Answer: TypeAlias = tuple[bytes, Metadata]

_OPTIONS = (
    # Another client's lost connection to the same address makes this client wait for nothing.
    ("grpc.use_local_subchannel_pool", 1),
    # The client repeats calls itself.
    ("grpc.enable_retries", 0),
    ("grpc.service_config", json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})),
    ("grpc.max_receive_message_length", 8 << 20),
    # Finds a connection that is lost under a stream, also if the stream is silent.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


class Channels:
    """Channels to the addresses. Calls go to one of them, and after a failure to the next.

    A channel opens with its first call: that of asyncio belongs to the loop that runs then.
    """

    def __init__(self, grpcio: Any, addresses: list[str], ca_file: str | Path | None) -> None:
        """Takes `grpc` or `grpc.aio`, and addresses such as `https://HOST:PORT`."""
        self._grpc, self._ca_file = grpcio, ca_file
        self._urls = [urlsplit(one if "://" in one else f"http://{one}") for one in addresses]
        for url in self._urls:
            if url.scheme not in ("http", "https") or not url.netloc or url.path not in ("", "/"):
                raise ValueError(f"{url.geturl()} is not an address, such as https://kith.example:7600")
        self.opened: dict[int, Any] = {}
        self._calls: dict[tuple[int, str], Any] = {}
        self._lock = threading.Lock()
        self._place = random.randrange(len(addresses))

    def exposed(self) -> bool:
        """Says whether a key would be sent to another machine without TLS."""
        local = ("localhost", "127.0.0.1", "::1")
        return any(url.scheme == "http" and url.hostname not in local for url in self._urls)

    def call(self, form: str, path: str) -> tuple[int, Any]:
        """Returns the address of now, and what calls the method there."""
        place = self._place
        call = self._calls.get((place, path))
        if call is None:
            with self._lock:
                if place not in self.opened:
                    self.opened[place] = self._open(place)
            call = getattr(self.opened[place], form)(path, request_serializer=_serialize)
            self._calls[place, path] = call
        return place, call

    def failed(self, place: int) -> None:
        """Goes to the next address, if this one is still that of now."""
        if place == self._place:
            self._place = (place + 1) % len(self._urls)

    def _open(self, place: int) -> Any:
        url = self._urls[place]
        if url.scheme == "http":
            return self._grpc.insecure_channel(url.netloc, options=_OPTIONS)
        roots = Path(self._ca_file).read_bytes() if self._ca_file else _system_roots()
        return self._grpc.secure_channel(url.netloc, grpc.ssl_channel_credentials(roots), options=_OPTIONS)


async def unary_async(call: Any, data: bytes, sent: Sent, timeout: float, headers: bool) -> Answer:
    """Makes a call. Returns its metadata, too, if `headers` is set."""
    state = call(data, timeout=timeout, metadata=sent)
    answer = await state
    return answer, (*await state.initial_metadata(), *await state.trailing_metadata()) if headers else ()


def unary(call: Any, data: bytes, sent: Sent, timeout: float, headers: bool) -> Answer:
    """Does what `unary_async` does, and blocks."""
    if not headers:
        return call(data, timeout, sent), ()
    answer, state = call.with_call(data, timeout, sent)
    return answer, (*state.initial_metadata(), *state.trailing_metadata())


def _serialize(request: Any) -> Any:
    return request if isinstance(request, bytes) else request.SerializeToString()


def _system_roots() -> bytes | None:
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None
