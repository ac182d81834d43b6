"""The one way of all calls. `generate.py` writes `kith_client.blocking`, which blocks, from this form."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import grpc

from kith_client.credential import Credential, TokenSource
from kith_client.errors import KithError, Metadata, from_rpc
from kith_client.method import Batch, Method, Req, Resp, left_out, next_page, with_values
from kith_client.retry import Budget, pause
from kith_client.session import Session, Texts
from kith_client.transport import Channels, Sent, unary_async
from kith_client.v1.reasons import Reason

# grpcio sends up to 2 ms more than it is given.
_ROUNDED_UP = 0.002
_log = logging.getLogger("kith_client")


@dataclass
class Link:
    """What all views of one client share."""

    channels: Channels
    timeout: float
    pause: float
    contract: int
    budget: Budget = field(default_factory=Budget)
    answered: bool = False
    warned: bool = False

    def read(self, answer: Metadata) -> None:
        """Warns once if the node has an older contract than this client."""
        self.answered = True
        contract = next((int(value) for key, value in answer if key == "kith-contract"), 0)
        if contract < self.contract and not self.warned:
            self.warned = True
            _log.warning("the node has contract %d, older than %d of this client", contract, self.contract)


@dataclass(frozen=True)
class Core:
    """Makes the calls of one view: with its credential, its acting user and its session."""

    link: Link
    credential: Credential | None = None
    user: int | None = None
    session: Session | None = None

    def of(self, user: int | None, token: TokenSource | None = None) -> "Core":
        """Returns a core that calls for another user, or by another token."""
        if token is None:
            return self if user is None else replace(self, user=user)
        return replace(self, user=user, credential=Credential(token))

    async def unary(self, method: Method[Req, Resp], request: Req, timeout: float | None = None) -> Resp:
        """Makes a call, and makes it again where that is safe, until the deadline."""
        end = time.monotonic() + (self.link.timeout if timeout is None else timeout)
        if method.batch:
            return await _batched(method.batch, request, lambda part: self._call(method, part, end))
        return await self._call(method, request, end)

    async def pages(
        self, method: Method[Req, Resp], request: Req, timeout: float | None = None
    ) -> AsyncGenerator[Resp, None]:
        """Yields the pages of a list. The deadline is that of each page."""
        following: Req | None = request
        while following is not None:
            page = await self.unary(method, following, timeout)
            yield page
            following = next_page(following, page)

    async def export(self, method: Method[Req, Resp], request: Req) -> AsyncGenerator[Resp, None]:
        """Yields the answers of an export. Goes on after the last record when the stream is lost."""
        async with aclosing(self.follow(method, lambda: request, ends=True)) as answers:
            async for answer in answers:
                request = method.next_part(request, answer)
                yield answer

    def stream(self, method: Method[Req, Resp], request: Any) -> AsyncGenerator[Resp, None]:
        """Yields the answers of a stream, and raises when it is lost."""
        return self.follow(method, lambda: request, again=False, ends=True)

    async def follow(
        self, method: Method[Req, Resp], request: Callable[[], Any], again: bool = True, ends: bool = False
    ) -> AsyncGenerator[Resp, None]:
        """Yields the answers of a stream. Opens it `again` after a failure, until an error lasts."""
        tries, renewed = 0, method.form == "stream_stream"
        while True:
            sent, _, credential = await self._sent()
            place, call = self.link.channels.call(method.form, method.path)
            answers = call(request(), metadata=sent)
            try:
                async for answer in answers:
                    tries, renewed = 0, not again
                    yield method.response.FromString(answer)
                if ends:
                    return
                error = KithError(grpc.StatusCode.UNAVAILABLE, "the stream has ended")
            except grpc.RpcError as failure:
                error = self._failed(place, failure)
                if not renewed and await self._renewed(error, credential):
                    renewed = True
                    continue
            finally:
                answers.cancel()
            tries += 1
            delay = pause(error, tries, self.link.pause, float("inf")) if again else None
            if delay is None:
                raise error
            await asyncio.sleep(delay)

    async def _call(self, method: Method[Req, Resp], request: Req, end: float) -> Resp:
        link, (request, request_id) = self.link, method.with_id(request)
        data, tries, renewed = request.SerializeToString(), 0, False
        while True:
            sent, carried, credential = await self._sent()
            place, call = link.channels.call("unary_unary", method.path)
            headers, left = self.session is not None or not link.answered, end - time.monotonic()
            try:
                answer, got = await unary_async(call, data, sent, left - _ROUNDED_UP, headers)
            except grpc.RpcError as failure:
                error, tries = self._failed(place, failure, request_id, carried), tries + 1
                if not renewed and await self._renewed(error, credential):
                    renewed = True
                    continue
                left = end - time.monotonic()
                delay = pause(error, tries, link.pause, left) if method.repeats(request) else None
                if delay is None or not link.budget.spend():
                    raise error from None
                await asyncio.sleep(delay)
            else:
                link.budget.earn()
                if headers:
                    self._read(carried, got)
                return method.response.FromString(answer)

    async def _sent(self) -> tuple[Sent, Texts, str]:
        credential = await self.credential.text() if self.credential else ""
        sent: Sent = (("authorization", f"Bearer {credential}"),) if credential else ()
        sent += (("kith-acting-user", str(self.user)),) if self.user is not None else ()
        carried = self.session.carry() if self.session else ()
        sent += tuple(("kith-session", text) for text in carried or ("",)) if self.session else ()
        return sent, carried, credential

    def _read(self, carried: Texts, answer: Metadata) -> None:
        self.link.read(answer)
        if self.session:
            self.session.take(carried, answer)

    def _failed(self, place: int, failure: Any, request_id: str = "", carried: Texts = ()) -> KithError:
        error = from_rpc(failure, request_id)
        if error.reason:
            self._read(carried, (*(failure.initial_metadata() or ()), *(failure.trailing_metadata() or ())))
        if error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            self.link.channels.failed(place)
        return error

    async def _renewed(self, error: KithError, credential: str) -> bool:
        refused = error.reason == Reason.CREDENTIALS_REFUSED
        return refused and self.credential is not None and await self.credential.renewed(credential)


async def _batched(batch: Batch, request: Req, call: Callable[[Req], Awaitable[Resp]]) -> Resp:
    """Returns a result for each id, in the order of the request.

    What did not fit into one answer is asked for again, as long as that brings something.
    """
    ids_field, results_field, limit = batch
    ids = getattr(request, ids_field)
    results: list[Any] = [None] * len(ids)
    places = list(range(len(ids)))
    while True:
        now, places = places[:limit], places[limit:]
        part = request if len(now) == len(ids) else with_values(request, ids_field, [ids[at] for at in now])
        response = await call(part)
        found = list(zip(now, getattr(response, results_field), strict=True))
        for place, result in found:
            results[place] = result
        again = [place for place, result in found if left_out(result)]
        places += again if len(again) < len(now) else []
        if not places:
            return response if len(now) == len(ids) else with_values(response, results_field, results)
