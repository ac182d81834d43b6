"""What the backend does with Kith: accounts, tokens, groups and the list of chats."""

from typing import Any

from kith_client import AsyncClient
from kith_client.issuer import Issuer
from kith_client.v1 import group_pb2, member_pb2, message_pb2, user_pb2


class Chat:
    """Calls Kith, with the key of the backend."""

    def __init__(self, issuer: Issuer) -> None:
        """Connects as KITH_ADDR and KITH_API_KEY_FILE say."""
        self.kith, self.issuer = AsyncClient(), issuer

    async def sign_up(self, name: str, password: str) -> int:
        """Creates a user with a password, which Kith hashes."""
        user = user_pb2.User(user_name=name, params={"pwd": password})
        return (await self.kith.users.create_user(user_pb2.CreateUserRequest(user=user))).user.user_id

    async def sign_in(self, name: str, password: str) -> int | None:
        """Returns the user if the password is right."""
        user_id = await self.find(self.kith, name)
        tried = user_pb2.VerifySecretRequest(user_id=user_id, name="pwd", secret=password)
        return user_id if (await self.kith.users.verify_secret(tried)).verified else None

    async def find(self, kith: AsyncClient, name: str) -> int:
        """Returns the user with this name."""
        request = user_pb2.FindUserByNameRequest(user_name=name)
        return (await kith.users.find_user_by_name(request)).user.user_id

    def token(self, user_id: int) -> str:
        """Returns a token for the socket of a browser."""
        return self.issuer.token(user_id)

    def view(self, user_id: int, session: str) -> AsyncClient:
        """Returns a view that reads what the user has written, on every node."""
        return self.kith.session(user_id, session)

    async def make_group(
        self, view: AsyncClient, creator: int, name: str, people: list[str]
    ) -> dict[str, Any]:
        """Creates a group, adds the friends of its creator, and invites others."""
        group = group_pb2.Group(name=name, creator_id=creator)
        made = await view.groups.create_group(group_pb2.CreateGroupRequest(group=group))
        group_id = made.group.group_id
        users = [await self.find(view, one) for one in people]
        request = member_pb2.AddMembersRequest(group_id=group_id, user_ids=users)
        added = await view.members.add_members(request) if users else member_pb2.AddMembersResponse()
        members = [member.user_id for member in added.members]
        return {"group_id": group_id, "added": members, "invited": list(added.invited_user_ids)}

    async def chats(self, view: AsyncClient, user_id: int) -> list[dict[str, Any]]:
        """Returns the conversations of a user, with names and unread counts."""
        pages = view.messages.list_conversations_pages(message_pb2.ListConversationsRequest())
        found = [conversation async for page in pages for conversation in page.conversations]
        names = await self.names(view, user_id, [one.conversation_id for one in found])
        return [
            {"id": one.conversation_id, "name": names[one.conversation_id], "unread": one.unread}
            for one in found
        ]

    async def names(self, view: AsyncClient, user_id: int, conversations: list[str]) -> dict[str, str]:
        """Returns the names of groups, and of the other users of direct conversations."""
        groups = {int(one[1:]): one for one in conversations if one[0] == "g"}
        pairs = {one: [int(each) for each in one[1:].split("-")] for one in conversations if one[0] == "d"}
        others = {sum(pair) - user_id: one for one, pair in pairs.items()}
        named = await view.groups.batch_get_groups(group_pb2.BatchGetGroupsRequest(group_ids=groups))
        people = await view.users.batch_get_users(user_pb2.BatchGetUsersRequest(user_ids=others))
        names = {groups[result.group_id]: result.group.name for result in named.results}
        return names | {others[result.user_id]: result.user.user_name for result in people.results}
