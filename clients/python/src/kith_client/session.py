"""Sessions: a user reads what it has written, on every node."""

import threading
from typing import TypeAlias

from kith_client.errors import Metadata

_CARRIED_MAX = 4
Texts: TypeAlias = tuple[str, ...]


class Session:
    """The texts that calls of one user carry. A node merges them, and only a node can read them.

    An answer covers what its call carried. Calls that overlap leave several texts, until a later call
    carries them together.
    """

    def __init__(self, exported: str = "") -> None:
        """Continues the session that `export` wrote."""
        self._lock = threading.Lock()
        self._texts = _split(exported)

    def export(self) -> str:
        """Returns the session as one text, such as for a cookie. Empty if no node has answered with one."""
        return ",".join(self.carry())

    def carry(self) -> Texts:
        """Returns the texts for a call, the latest first."""
        return self._texts[:_CARRIED_MAX]

    def take(self, carried: Texts, answer: Metadata) -> None:
        """Replaces what a call carried by what its answer has."""
        merged = tuple(text for key, value in answer if key == "kith-session" for text in _split(str(value)))
        if merged:
            with self._lock:
                kept = (text for text in self._texts if text not in carried and text not in merged)
                self._texts = (*merged, *kept)


def _split(value: str) -> Texts:
    return tuple(text for text in (part.strip() for part in value.split(",")) if text)
