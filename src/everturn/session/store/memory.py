"""Conversations in memory, for as long as the process lives. Blobs are in a folder that ends with it."""

import hashlib
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from everturn.errors import InputError, LeaseLost, SessionLocked
from everturn.session.store.factory import (
    CounterStep,
    StoredConversation,
    check_names,
    check_steps,
    find_exceeded,
)
from everturn.session.store.protocol import Access
from everturn.session.store.row_store import RowStore

NAME: Final = "memory:"


class _Conversation:
    def __init__(self, family: str) -> None:
        self.family = family
        self.lines: list[bytes] = []
        self.state = b""
        # Names of blobs and the digests of their content.
        self.blobs: dict[str, bytes] = {}
        self.changed_at = datetime.now(UTC)
        # Who writes it; increased whenever somebody else does. 0: nobody.
        self.holder = 0
        self.token = 0


class MemoryStores:
    def __init__(self) -> None:
        self.name = NAME
        self._guard = threading.RLock()
        self._folder = tempfile.TemporaryDirectory(prefix="everturn-memory-")
        self._conversations: dict[tuple[str, str], _Conversation] = {}
        self._messages: dict[tuple[str, str], str] = {}
        self._counters: dict[tuple[str, str], int] = {}
        # Content of blobs by tenant and digest.
        self._blobs: dict[tuple[str, bytes], bytes] = {}
        self._open: set[RowStore] = set()

    def open(self, tenant: str, conversation: str, *, access: Access = "write", family: str = "") -> RowStore:
        check_names(tenant, conversation)
        return RowStore(
            f"the conversation {conversation} in memory",
            Path(self._folder.name) / tenant / conversation,
            lambda: _MemoryRows(self, tenant, conversation, family, access),
            access=access,
            opened=self._open,
        )

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        return self._messages.get((tenant, message_id))

    def conversations(
        self, tenant: str, *, family: str | None = None, most: int | None = None
    ) -> list[StoredConversation]:
        with self._guard:
            found = [
                StoredConversation(name, each.family, each.changed_at)
                for (owner, name), each in self._conversations.items()
                if owner == tenant and each.lines and family in (None, each.family)
            ]
        return sorted(found, key=lambda each: each.changed_at, reverse=True)[:most]

    def first_lines(self, tenant: str, most: int) -> dict[str, bytes]:
        return {
            each.name: self._conversations[tenant, each.name].lines[0]
            for each in self.conversations(tenant, most=most)
        }

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        check_steps(steps)
        with self._guard:
            exceeded = find_exceeded(steps, self.read_counters(tenant, [step.name for step in steps]))
            for step in () if exceeded else steps:
                key = tenant, step.name
                self._counters[key] = self._counters.get(key, 0) + step.amount
        return exceeded

    def read_counters(self, tenant: str, names: Sequence[str]) -> dict[str, int]:
        with self._guard:
            return {name: self._counters.get((tenant, name), 0) for name in names}

    def check(self) -> str:
        return ""

    def close(self) -> None:
        for store in list(self._open):
            store.close()
        self._folder.cleanup()

    # ── what the rows of one conversation need ───────────────────────────────────────────────────

    def acquire(self, tenant: str, name: str, family: str, access: Access) -> _Conversation:
        with self._guard:
            found = self._conversations.get((tenant, name))
            if access == "read":
                if found is None:
                    raise InputError(f"There is no conversation {name} of the tenant {tenant} in memory.")
                return found
            found = found or self._conversations.setdefault((tenant, name), _Conversation(family))
            self.take(found, name)
            return found

    def take(self, found: _Conversation, name: str) -> None:
        with self._guard:
            if found.holder:
                raise SessionLocked(
                    f"The conversation {name} is being written in this process. Close it there first, or "
                    "open it for reading only."
                )
            found.token += 1
            found.holder = found.token

    def add_lines(
        self, tenant: str, name: str, found: _Conversation, lines: Sequence[bytes], message_ids: Sequence[str]
    ) -> None:
        found.lines.extend(lines)
        found.changed_at = datetime.now(UTC)
        for each in message_ids:
            self._messages.setdefault((tenant, each), name)

    def add_blob(self, tenant: str, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        self._blobs.setdefault((tenant, digest), data)
        return digest

    def blob(self, tenant: str, digest: bytes) -> bytes:
        return self._blobs[tenant, digest]

    @property
    def guard(self) -> threading.RLock:
        return self._guard


class _MemoryRows:
    def __init__(self, stores: MemoryStores, tenant: str, name: str, family: str, access: Access) -> None:
        self._stores, self._tenant, self._name = stores, tenant, name
        self._found = stores.acquire(tenant, name, family, access)
        self._token = self._found.token

    def read_lines(self) -> list[bytes]:
        return list(self._found.lines)

    def append(self, at: int, lines: Sequence[bytes], message_ids: Sequence[str]) -> None:
        with self._stores.guard:
            self._check_held(at)
            self._stores.add_lines(self._tenant, self._name, self._found, lines, message_ids)

    def read_state(self) -> bytes:
        return self._found.state

    def write_state(self, data: bytes) -> None:
        with self._stores.guard:
            self._check_held(len(self._found.lines))
            self._found.state = data

    def write_blob(self, name: str, data: bytes) -> None:
        self._found.blobs[name] = self._stores.add_blob(self._tenant, data)

    def read_blobs(self, known: Sequence[str]) -> Mapping[str, bytes]:
        new = self._found.blobs.keys() - set(known)
        return {name: self._stores.blob(self._tenant, self._found.blobs[name]) for name in new}

    def release(self) -> None:
        with self._stores.guard:
            if self._found.holder == self._token:
                self._found.holder = 0

    def resume(self, at: int) -> bool:
        with self._stores.guard:
            if self._found.holder != self._token:
                self._stores.take(self._found, self._name)
                self._token = self._found.token
            return len(self._found.lines) == at

    def _check_held(self, at: int) -> None:
        if self._found.holder != self._token or len(self._found.lines) != at:
            raise LeaseLost(f"The conversation {self._name} was released; resume it or open it again.")
