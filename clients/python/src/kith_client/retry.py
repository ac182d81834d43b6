"""When a call is made again."""

import random

import grpc

from kith_client.errors import KithError
from kith_client.v1.reasons import Reason

_PAUSE_MAX = 1.0


class Budget:
    """Limits the tries that a client adds to a failing cluster: one for ten calls that succeed, and 100."""

    _MAX = 100.0
    _GAIN = 0.1

    def __init__(self) -> None:
        """Starts full."""
        self._left = self._MAX

    def earn(self) -> None:
        """Counts a call that succeeded."""
        self._left = min(self._left + self._GAIN, self._MAX)

    def spend(self) -> bool:
        """Takes one try. Returns whether there was one."""
        if self._left < 1:
            return False
        self._left -= 1
        return True


def pause(error: KithError, tries: int, first: float, left: float) -> float | None:
    """Returns how long to wait after `tries` tries, or None if the error is to be raised.

    The delay of the node is kept. A random pause is added, which grows from the `first` up to a second. What
    ends after the `left` seconds of the deadline is not waited for.
    """
    lost = error.code is grpc.StatusCode.UNAVAILABLE and not error.reason
    if error.reason == Reason.ANSWER_TOO_LARGE or (error.retry_delay is None and not lost):
        return None
    grown = min(first * 2.0 ** min(tries - 1, 16), _PAUSE_MAX)
    delay = (error.retry_delay or 0.0) + random.uniform(0.5, 1.0) * grown
    return delay if delay < left else None
