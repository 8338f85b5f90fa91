"""Every conversation in one PostgreSQL: opened, found, listed and counted."""

import asyncio
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from everturn.errors import StoreError
from everturn.session.store.factory import (
    CounterStep,
    StoredConversation,
    check_names,
    check_steps,
    find_exceeded,
)
from everturn.session.store.migrations import Migration
from everturn.session.store.postgres.database import DEADLINE, MAX_CONNECTIONS, Connection, Database
from everturn.session.store.postgres.rows import LeaseTable, Owner, PostgresRows
from everturn.session.store.postgres.schema import MIGRATIONS, migrate
from everturn.session.store.protocol import Access
from everturn.session.store.row_store import RowStore

# How long a process may be silent before another takes its conversations. Our choice: longer than a restart
# of the database, shorter than people wait.
LEASE_SECONDS: Final = 15.0
# A lease is renewed so often while it lasts, so that one failure does not lose it.
RENEWALS: Final = 3

_RENEW: Final = """
UPDATE everturn.conversation AS held SET lease_until = clock_timestamp() + $5
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS ours (tenant, name, holder, token)
WHERE held.tenant = ours.tenant AND held.name = ours.name AND held.holder = ours.holder
  AND held.token = ours.token AND held.lease_until > clock_timestamp()
"""
_LIST: Final = """
SELECT name, family, changed_at FROM everturn.conversation
WHERE tenant = $1 AND lines > 0 AND ($2::text IS NULL OR family = $2)
ORDER BY changed_at DESC LIMIT $3
"""
_FIRST_LINES: Final = """
SELECT line.conversation, line.data FROM (
    SELECT tenant, name, changed_at FROM everturn.conversation
    WHERE tenant = $1 AND lines > 0 ORDER BY changed_at DESC LIMIT $2
) AS newest JOIN everturn.line
ON line.tenant = newest.tenant AND line.conversation = newest.name AND line.at = 0
ORDER BY newest.changed_at DESC
"""
_NEW_COUNTERS: Final = """
INSERT INTO everturn.counter (tenant, name, amount)
SELECT $1, new.name, 0 FROM unnest($2::text[]) AS new (name)
ORDER BY new.name ON CONFLICT DO NOTHING
"""
_LOCK_COUNTERS: Final = """
SELECT name, amount FROM everturn.counter WHERE tenant = $1 AND name = ANY($2::text[])
ORDER BY name FOR UPDATE
"""
_ADD: Final = """
UPDATE everturn.counter AS held SET amount = held.amount + new.amount
FROM unnest($2::text[], $3::bigint[]) AS new (name, amount)
WHERE held.tenant = $1 AND held.name = new.name
"""


class PostgresStores:
    """`folder` is for local files: blobs that agents read, notes, copies of transcripts."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        deadline: float = DEADLINE,
        lease: float = LEASE_SECONDS,
        connections: int = MAX_CONNECTIONS,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self._database = Database(url, deadline=deadline, connections=connections)
        self.name = f"PostgreSQL at {self._database.name}"
        self._folder, self._lease = folder, lease
        self._leases = LeaseTable()
        self._open: set[RowStore] = set()
        try:
            self._database.run(lambda connection: migrate(connection, migrations, self.name))
        except BaseException:
            self._database.close()
            raise
        self._database.start(self._renew_leases())

    def open(self, tenant: str, conversation: str, *, access: Access = "write", family: str = "") -> RowStore:
        check_names(tenant, conversation)

        def acquire() -> PostgresRows:
            owner = Owner(f"{socket.gethostname()}:{os.getpid()}", uuid.uuid4().hex, self._lease)
            return PostgresRows(
                self._database,
                tenant,
                conversation,
                access=access,
                owner=owner,
                leases=self._leases,
                family=family,
            )

        return RowStore(
            f"the conversation {conversation} in {self.name}",
            self._folder / tenant / conversation,
            acquire,
            access=access,
            opened=self._open,
        )

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        if "\0" in message_id:
            return None
        asked = "SELECT conversation FROM everturn.message WHERE tenant = $1 AND id = $2"
        return self._database.run(lambda connection: connection.fetchval(asked, tenant, message_id))

    def conversations(
        self, tenant: str, *, family: str | None = None, most: int | None = None
    ) -> list[StoredConversation]:
        check_names(tenant)

        async def read(connection: Connection) -> list[StoredConversation]:
            rows = await connection.fetch(_LIST, tenant, family, most)
            return [StoredConversation(row["name"], row["family"], row["changed_at"]) for row in rows]

        return self._database.run(read)

    def first_lines(self, tenant: str, most: int) -> Mapping[str, bytes]:
        check_names(tenant)

        async def read(connection: Connection) -> dict[str, bytes]:
            rows = await connection.fetch(_FIRST_LINES, tenant, most)
            return {row["conversation"]: row["data"] for row in rows}

        return self._database.run(read)

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        """Not repeated if its answer is lost: it may then have been counted although this raises."""
        check_steps(steps)
        names = [step.name for step in steps]

        async def add(connection: Connection) -> str:
            async with connection.transaction():
                # In the order of names, so that two transactions never wait for each other.
                await connection.execute(_NEW_COUNTERS, tenant, names)
                rows = await connection.fetch(_LOCK_COUNTERS, tenant, names)
                exceeded = find_exceeded(steps, {row["name"]: row["amount"] for row in rows})
                if not exceeded:
                    await connection.execute(_ADD, tenant, names, [step.amount for step in steps])
                return exceeded

        return self._database.run(add, is_repeatable=False)

    def read_counters(self, tenant: str, names: Sequence[str]) -> Mapping[str, int]:
        asked = "SELECT name, amount FROM everturn.counter WHERE tenant = $1 AND name = ANY($2::text[])"

        async def read(connection: Connection) -> dict[str, int]:
            rows = await connection.fetch(asked, tenant, list(names))
            return dict.fromkeys(names, 0) | {row["name"]: row["amount"] for row in rows}

        return self._database.run(read)

    def check(self) -> str:
        try:
            self._database.run(lambda connection: connection.fetchval("SELECT 1"))
        except StoreError as problem:
            return str(problem)
        return ""

    def close(self) -> None:
        for store in list(self._open):
            store.close()
        self._database.close()

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._lease / RENEWALS)
            columns = self._leases.columns()
            if not columns[0]:
                continue
            try:
                await self._database.perform(
                    lambda connection, columns=columns: connection.execute(
                        _RENEW, *columns, timedelta(seconds=self._lease)
                    )
                )
            except Exception:
                # The next one may succeed. If none does, the next append says so.
                continue
