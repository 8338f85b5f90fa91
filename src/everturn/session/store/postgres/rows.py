"""The rows of one conversation in PostgreSQL, and the lease on them.

The one statement that appends also checks that the lease is ours (holder and token), has not expired by the
clock of the database, and that the conversation has as many lines as we know of. So a replica that was paused
for an hour cannot write over another one, and two replicas cannot both append a compaction to one view.

Whether a statement whose answer was lost has been performed is found out by sending it again: if it was, the
second one finds another number of lines, and the lines there are ours.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from everturn.errors import InputError, LeaseLost, SessionLocked
from everturn.session.store.postgres.database import Connection, Database
from everturn.session.store.protocol import Access

# Lines that one operation reads: each has the deadline to itself.
PAGE: Final = 500

_ACQUIRE: Final = """
INSERT INTO everturn.conversation AS held (tenant, name, family, holder, token, lease_until)
VALUES ($1, $2, $5, $3, 1, clock_timestamp() + $4)
ON CONFLICT (tenant, name) DO UPDATE
SET holder = $3, token = held.token + 1, lease_until = clock_timestamp() + $4
WHERE held.holder IN ('', $3) OR held.lease_until <= clock_timestamp()
RETURNING token
"""
_RESUME: Final = """
UPDATE everturn.conversation
SET holder = $3, token = token + 1, lease_until = clock_timestamp() + $4
WHERE tenant = $1 AND name = $2 AND lines = $5
  AND (holder IN ('', $3) OR lease_until <= clock_timestamp())
RETURNING token
"""
_APPEND: Final = """
WITH held AS (
    UPDATE everturn.conversation
    SET lines = lines + cardinality($7::bytea[]), changed_at = clock_timestamp(),
        lease_until = clock_timestamp() + $5
    WHERE tenant = $1 AND name = $2 AND holder = $3 AND token = $4
      AND lease_until > clock_timestamp() AND lines = $6
    RETURNING tenant, name
), written AS (
    INSERT INTO everturn.line (tenant, conversation, at, data)
    SELECT held.tenant, held.name, $6 + new.number - 1, new.data
    FROM held, unnest($7::bytea[]) WITH ORDINALITY AS new (data, number)
), indexed AS (
    INSERT INTO everturn.message (tenant, id, conversation)
    SELECT held.tenant, new.id, held.name FROM held, unnest($8::text[]) AS new (id)
    ON CONFLICT DO NOTHING
)
SELECT 1 FROM held
"""
_RELEASE: Final = """
UPDATE everturn.conversation SET holder = '', lease_until = '-infinity'
WHERE tenant = $1 AND name = $2 AND holder = $3 AND token = $4
"""
_STATUS: Final = """
SELECT holder, token, lines, lease_until > clock_timestamp() AS is_valid
FROM everturn.conversation WHERE tenant = $1 AND name = $2
"""
_WRITE_STATE: Final = """
UPDATE everturn.conversation SET state = $5
WHERE tenant = $1 AND name = $2 AND holder = $3 AND token = $4 AND lease_until > clock_timestamp()
RETURNING 1
"""
_LINES: Final = """
SELECT data FROM everturn.line WHERE tenant = $1 AND conversation = $2 AND at >= $3 AND at < $4 ORDER BY at
"""
_WRITE_BLOB: Final = """
WITH kept AS (
    INSERT INTO everturn.blob (tenant, digest, data) VALUES ($1, $4, $5) ON CONFLICT DO NOTHING
)
INSERT INTO everturn.file (tenant, conversation, name, digest) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, conversation, name) DO UPDATE SET digest = $4
"""
_BLOBS: Final = """
SELECT file.name, blob.data FROM everturn.file JOIN everturn.blob USING (tenant, digest)
WHERE tenant = $1 AND file.conversation = $2 AND file.name <> ALL($3::text[])
"""


class Owner(NamedTuple):
    """Who asks for a lease: a name for people, a part that nobody else has, and for how long."""

    name: str
    id: str
    seconds: float

    @property
    def holder(self) -> str:
        return f"{self.name}/{self.id}"


class LeaseTable:
    """The leases that this process holds, by tenant, name and holder: what is renewed in the background. A
    conversation may be open several times here; one of them must not drop the lease of another."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str, str], int] = {}

    def hold(self, tenant: str, name: str, holder: str, token: int) -> None:
        self._tokens[tenant, name, holder] = token

    def drop(self, tenant: str, name: str, holder: str) -> None:
        self._tokens.pop((tenant, name, holder), None)

    def columns(self) -> tuple[list[str], list[str], list[str], list[int]]:
        rows = [(*key, token) for key, token in list(self._tokens.items())]
        return (
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows],
        )


class PostgresRows:
    def __init__(
        self,
        database: Database,
        tenant: str,
        name: str,
        *,
        access: Access,
        owner: Owner,
        leases: LeaseTable,
        family: str = "",
    ) -> None:
        self._database, self._owner, self._leases = database, owner, leases
        self._key = tenant, name
        self._token = 0
        if access == "write":
            self._acquire(family)
        elif self._status() is None:
            raise InputError(
                f"There is no conversation {name} of the tenant {tenant} in PostgreSQL at {database.name}."
            )

    # ── the lease ────────────────────────────────────────────────────────────────────────────────

    def _acquire(self, family: str) -> None:
        token = self._fetch_value(_ACQUIRE, *self._key, self._owner.holder, self._lease, family)
        if token is None:
            raise self._locked(self._status())
        self._hold(token)

    def release(self) -> None:
        if not self._token:
            return
        token, self._token = self._token, 0
        self._leases.drop(*self._key, self._owner.holder)
        try:
            self._execute(_RELEASE, *self._key, self._owner.holder, token)
        except Exception:
            # It is not renewed any more, so it expires.
            return

    def resume(self, at: int) -> bool:
        token = self._fetch_value(_RESUME, *self._key, self._owner.holder, self._lease, at)
        if token is not None:
            self._hold(token)
            return True
        found = self._status()
        if found is not None and found["lines"] == at and found["is_valid"]:
            raise self._locked(found)
        return False

    def _hold(self, token: int) -> None:
        self._token = token
        self._leases.hold(*self._key, self._owner.holder, token)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._owner.seconds)

    def _status(self) -> Any:
        return self._database.run(lambda connection: connection.fetchrow(_STATUS, *self._key))

    def _locked(self, found: Any) -> SessionLocked:
        who = found["holder"].rpartition("/")[0] if found else ""
        return SessionLocked(
            f"The conversation {self._key[1]} of the tenant {self._key[0]} is being written by "
            f"{who or 'another process'}. Wait until it has finished, or open it for reading only."
        )

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def read_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        while True:
            page = self._read_page(len(lines), len(lines) + PAGE)
            lines += page
            if len(page) < PAGE:
                return lines

    def append(self, at: int, lines: Sequence[bytes], message_ids: Sequence[str]) -> None:
        # PostgreSQL has no text with a NUL character; no provider has such an id.
        ids = [each for each in message_ids if "\0" not in each]
        if self._append_once(at, lines, ids):
            return
        found = self._status()
        if found is not None and found["lines"] >= at + len(lines) and self._holds(at, lines):
            return
        if found is not None and not found["is_valid"] and self._is_ours(found) and self.resume(at):
            # Nobody else asked for it since it expired.
            if self._append_once(at, lines, ids) or self._holds(at, lines):
                return
            found = self._status()
        raise self._lost(found)

    def _append_once(self, at: int, lines: Sequence[bytes], ids: Sequence[str]) -> bool:
        values = (*self._key, self._owner.holder, self._token, self._lease, at, list(lines), list(ids))
        return self._fetch_value(_APPEND, *values) is not None

    def _holds(self, at: int, lines: Sequence[bytes]) -> bool:
        """Whether these lines are there: the answer to the first attempt was lost."""
        return self._read_page(at, at + len(lines)) == list(lines)

    def _read_page(self, first: int, end: int) -> list[bytes]:
        async def read(connection: Connection) -> list[bytes]:
            return [row["data"] for row in await connection.fetch(_LINES, *self._key, first, end)]

        return self._database.run(read)

    def _is_ours(self, found: Any) -> bool:
        return found["holder"] == self._owner.holder and found["token"] == self._token

    def _lost(self, found: Any) -> LeaseLost:
        self._leases.drop(*self._key, self._owner.holder)
        who = found["holder"].rpartition("/")[0] if found and not self._is_ours(found) else ""
        return LeaseLost(
            f"The conversation {self._key[1]} of the tenant {self._key[0]} was taken over by "
            f"{who or 'another process'} while this one did not renew its lease. Nothing was stored; open "
            "the conversation again."
        )

    # ── state and blobs ──────────────────────────────────────────────────────────────────────────

    def read_state(self) -> bytes:
        asked = "SELECT state FROM everturn.conversation WHERE tenant = $1 AND name = $2"
        return self._fetch_value(asked, *self._key) or b""

    def write_state(self, data: bytes) -> None:
        values = (*self._key, self._owner.holder, self._token, data)
        if self._fetch_value(_WRITE_STATE, *values) is None:
            raise self._lost(self._status())

    def write_blob(self, name: str, data: bytes) -> None:
        self._execute(_WRITE_BLOB, *self._key, name, hashlib.sha256(data).digest(), data)

    def read_blobs(self, known: Sequence[str]) -> Mapping[str, bytes]:
        async def read(connection: Connection) -> dict[str, bytes]:
            rows = await connection.fetch(_BLOBS, *self._key, list(known))
            return {row["name"]: row["data"] for row in rows}

        return self._database.run(read)

    def _fetch_value(self, statement: str, *values: Any) -> Any:
        return self._database.run(lambda connection: connection.fetchval(statement, *values))

    def _execute(self, statement: str, *values: Any) -> None:
        self._database.run(lambda connection: connection.execute(statement, *values))
