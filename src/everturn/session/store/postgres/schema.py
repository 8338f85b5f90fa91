"""The tables of everturn in PostgreSQL, and the statements that lead to them.

    conversation   one row each: how many lines it has, who may write it, and the small state
    line           append-only: the lines of the transcript, as bytes
    message        in which conversation the reply with an id was recorded
    blob, file     content of large results by digest, and the names that conversations have for it
    counter        sums with caps

All of them begin with the tenant. Migrations run in one transaction under a lock of that transaction: locks
of a session break behind poolers that exchange sessions between transactions.
"""

from collections.abc import Sequence
from typing import Final

from everturn.session.store.migrations import Migration, SchemaVersion, plan_migrations
from everturn.session.store.postgres.database import Connection

# Any number that nobody else uses: the key of the lock.
LOCK: Final = 0x65766572
MIGRATIONS: Final = (
    Migration(
        1,
        1,
        (
            """
            CREATE TABLE everturn.conversation (
                tenant text NOT NULL,
                name text NOT NULL,
                family text NOT NULL,
                lines bigint NOT NULL DEFAULT 0,
                holder text NOT NULL DEFAULT '',
                token bigint NOT NULL DEFAULT 0,
                lease_until timestamptz NOT NULL DEFAULT '-infinity',
                state bytea NOT NULL DEFAULT '',
                changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
                PRIMARY KEY (tenant, name)
            )
            """,
            "CREATE INDEX conversation_by_family ON everturn.conversation (tenant, family, changed_at)",
            """
            CREATE TABLE everturn.line (
                tenant text NOT NULL,
                conversation text NOT NULL,
                at bigint NOT NULL,
                data bytea NOT NULL,
                PRIMARY KEY (tenant, conversation, at)
            )
            """,
            """
            CREATE TABLE everturn.message (
                tenant text NOT NULL,
                id text NOT NULL,
                conversation text NOT NULL,
                PRIMARY KEY (tenant, id)
            )
            """,
            """
            CREATE TABLE everturn.blob (
                tenant text NOT NULL,
                digest bytea NOT NULL,
                data bytea NOT NULL,
                PRIMARY KEY (tenant, digest)
            )
            """,
            """
            CREATE TABLE everturn.file (
                tenant text NOT NULL,
                conversation text NOT NULL,
                name text NOT NULL,
                digest bytea NOT NULL,
                PRIMARY KEY (tenant, conversation, name)
            )
            """,
            """
            CREATE TABLE everturn.counter (
                tenant text NOT NULL,
                name text NOT NULL,
                amount bigint NOT NULL,
                PRIMARY KEY (tenant, name)
            )
            """,
        ),
    ),
)

# Not `to_regclass`: within a transaction it does not see what another one has created since.
_TABLE_EXISTS: Final = """
SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'everturn' AND relname = 'schema_version'
"""


async def migrate(connection: Connection, migrations: Sequence[Migration], name: str) -> None:
    """Bring the schema to the newest version that this program knows. `name` is the database in messages."""
    if not plan_migrations(await _read_version(connection), migrations, name):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        # Somebody else may have done it while we waited for the lock.
        for each in plan_migrations(await _read_version(connection), migrations, name):
            if each.version == migrations[0].version:
                await _create_schema(connection)
            for statement in each.statements:
                await connection.execute(statement)
            await connection.execute("DELETE FROM everturn.schema_version")
            await connection.execute(
                "INSERT INTO everturn.schema_version VALUES ($1, $2)", each.version, each.oldest
            )


async def _read_version(connection: Connection) -> SchemaVersion:
    if not await connection.fetchval(_TABLE_EXISTS):
        return SchemaVersion()
    row = await connection.fetchrow("SELECT version, oldest FROM everturn.schema_version")
    return SchemaVersion(row["version"], row["oldest"]) if row else SchemaVersion()


async def _create_schema(connection: Connection) -> None:
    # An administrator may have created it for a user who may not.
    if not await connection.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'everturn'"):
        await connection.execute("CREATE SCHEMA everturn")
    await connection.execute("CREATE TABLE everturn.schema_version (version int, oldest int)")
