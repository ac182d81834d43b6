"""Keys of callers and tokens of users."""

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Token: TypeAlias = str | tuple[str, float]
"""A token. With the seconds that it has left, unless it is a JWT, which says so itself."""
TokenSource: TypeAlias = str | Callable[[], Token | Awaitable[Token]]
"""A token, or a function that gets a new one from the sign-in."""

_USED = 0.8


class Credential:
    """A credential. If it has a source, it is got again before it ends, and once after a refusal.

    One call at a time asks the source.
    """

    def __init__(self, source: TokenSource) -> None:
        """Takes a text that stays, or a source."""
        self._source, self._lock = source, asyncio.Lock()
        self._text = source if isinstance(source, str) else ""
        self._renew_at = self._end_at = float("inf") if self._text else 0.0

    async def text(self) -> str:
        """Returns the credential. Asks the source first if a fifth of the time or less is left."""
        if time.monotonic() >= self._renew_at:
            async with self._lock:
                try:
                    if time.monotonic() >= self._renew_at:
                        await self._get()
                except Exception:
                    if time.monotonic() >= self._end_at:
                        raise
        return self._text

    async def renewed(self, refused: str) -> bool:
        """Gets another credential after a node refused this one. Returns whether there is another."""
        async with self._lock:
            if self._text == refused:
                await self._get()
            return self._text != refused

    async def _get(self) -> None:
        if not isinstance(self._source, str):
            token: Token = await settle(self._source())
            self._text, left = token if isinstance(token, tuple) else (token, _left(token))
            self._renew_at, self._end_at = time.monotonic() + left * _USED, time.monotonic() + left


async def settle(value: T | Awaitable[T]) -> T:
    """Returns what a function of the caller returns, which may be one of asyncio."""
    return await value if isawaitable(value) else value


def key_file(path: str | Path) -> Callable[[], str]:
    """Returns a source that reads the first line of a file: a refused key is read again."""
    return lambda: Path(path).read_text("utf-8").partition("\n")[0].strip()


def _left(token: str) -> float:
    """Returns how many seconds a new token has left. Endless if it is no JWT.

    A clock that is wrong must not make a token seem ended, so its whole lifetime counts then.
    """
    try:
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        end, begin = float(claims["exp"]), float(claims["iat"])
    except (IndexError, KeyError, TypeError, ValueError):
        return float("inf")
    left = end - time.time()
    return left if 0 < left <= end - begin else max(end - begin, 1.0)
