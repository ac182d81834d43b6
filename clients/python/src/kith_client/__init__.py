"""The client of Kith: calls that are repeated safely, sessions, pages, and events without gaps.

Messages and services of the contract are in `kith_client.v1`.
"""

from kith_client.blocking.client import Client
from kith_client.client import AsyncClient
from kith_client.errors import KithError
from kith_client.state import Batch, State
from kith_client.v1.reasons import Reason

__all__ = ["AsyncClient", "Batch", "Client", "KithError", "Reason", "State"]
