"""Where a device is in the events of its user."""

import json
from dataclasses import asdict, dataclass, field

from kith_client.v1 import message_pb2

POSITIONS_MAX = 2000


@dataclass
class State:
    """Where a device is in the events of its user. Store it together with the effects of the batch.

    A cursor alone loses messages at a reset, so the numbers of the messages belong to it.
    """

    cursor: str = ""
    """Where the stream continues."""
    positions: dict[str, int] = field(default_factory=dict)
    """The highest number of each conversation up to which the device misses no message."""

    def dump(self) -> str:
        """Returns the state as a text."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> "State":
        """Reads what `dump` has written. An empty text is the state of a device that has nothing."""
        return cls(**json.loads(text)) if text else cls()

    def copy(self) -> "State":
        """Returns a state that does not change with this one."""
        return State(self.cursor, dict(self.positions))

    def reach(self, conversation: str, seq: int) -> None:
        """Notes that the device has everything of a conversation up to a number."""
        self.positions[conversation] = max(seq, self.positions.pop(conversation, 0))
        if len(self.positions) > POSITIONS_MAX:
            del self.positions[next(iter(self.positions))]


@dataclass(frozen=True)
class Batch:
    """Events that came together, and the state after them. May be without events."""

    deliveries: list[message_pb2.Delivery]
    """The events, without messages that came before."""
    state: State
    """What to store with their effects."""

    @property
    def messages(self) -> list[message_pb2.Message]:
        """The messages among them."""
        return [delivery.message for delivery in self.deliveries if delivery.HasField("message")]
