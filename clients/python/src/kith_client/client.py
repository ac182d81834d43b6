"""The client."""

import copy
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import grpc.aio
from typing_extensions import Self, Unpack

from kith_client.core import Core, Link
from kith_client.credential import TokenSource, key_file
from kith_client.receive import ReceiveOptions, receive, watch_offline
from kith_client.session import Session
from kith_client.state import Batch, State
from kith_client.transport import Channels
from kith_client.v1 import aio, message_pb2
from kith_client.v1.contract import CONTRACT


class AsyncClient(aio.Services):
    """Calls Kith. A process needs one client.

    `as_user`, `with_token` and `session` return views: clients that share the connection of this one.
    """

    def __init__(
        self,
        address: str | Sequence[str] | None = None,
        *,
        api_key: str | None = None,
        token: TokenSource | None = None,
        ca_file: str | Path | None = None,
        insecure: bool = False,
        timeout: float = 5.0,
        pause: float = 0.05,
        contract: int = CONTRACT,
    ) -> None:
        """Makes a client, which connects with its first call.

        Args:
            address: one or more of `https://HOST:PORT`. Default: `KITH_ADDR`, else the node of this machine.
            api_key: the key of a caller. Default: the first line of the file that `KITH_API_KEY_FILE` names.
            token: in its place the token of a user, or a function that gets one before the last ends.
            ca_file: certificates to trust, in PEM. Default: those of the system.
            insecure: allows to send the key without TLS to another machine.
            timeout: the seconds of a call over all its tries. Streams have no limit.
            pause: the seconds before the first repetition, where the node names none. Later ones grow.
            contract: the number of the contract that this client has. A node with a lower one is warned of.
        """
        given = address or os.environ.get("KITH_ADDR") or "http://127.0.0.1:7600"
        file, source = os.environ.get("KITH_API_KEY_FILE"), api_key or token
        source = source or (key_file(file) if file else None)
        addresses = given.split(",") if isinstance(given, str) else list(given)
        self._channels = Channels(grpc.aio, addresses, ca_file)
        if source and not insecure and self._channels.exposed():
            raise ValueError("the key would be sent without TLS: use https, or set insecure")
        self._bind(Core(Link(self._channels, timeout, pause, contract)).of(None, source))

    def as_user(self, user: int) -> Self:
        """Returns a view that calls for a user (`kith-acting-user`)."""
        return self._view(self._core.of(user))

    def with_token(self, token: TokenSource) -> Self:
        """Returns a view that calls as the user of a token, or of a function that gets one."""
        return self._view(self._core.of(None, token))

    def session(self, user: int | None = None, exported: str = "") -> Self:
        """Returns a view for one user that reads what it has written, on every node.

        Without a user, it is that of this client. `exported` continues what `export_session` has returned.
        """
        return self._view(replace(self._core.of(user), session=Session(exported)))

    def export_session(self) -> str:
        """Returns the session as a text, such as for a cookie."""
        return self._core.session.export() if self._core.session else ""

    def receive(
        self, user: int, state: State | None = None, **options: Unpack[ReceiveOptions]
    ) -> AsyncIterator[Batch]:
        """Yields the events of a user, over lost connections, from a stored state or from now on."""
        return receive(self._core, user, state.copy() if state else State(), options)

    def watch_offline(self, cursor: str = "") -> AsyncIterator[message_pb2.WatchOfflineResponse]:
        """Yields messages with users who had no receiver. Store the cursor after each push."""
        return watch_offline(self._core, cursor)

    async def close(self) -> None:
        """Closes the connection, also for all views."""
        for channel in self._channels.opened.values():
            await channel.close()

    async def __aenter__(self) -> Self:
        """Returns the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the client."""
        await self.close()

    def _view(self, core: Core) -> Self:
        view = copy.copy(self)
        view._bind(core)
        return view
