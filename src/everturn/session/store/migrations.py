"""Numbered changes of a database's schema, which only go forward.

A replica can run beside one that is a version newer: a migration adds what the old version does not know,
and says with `oldest` which version of the schema a program must know to work with it. A program that knows
less is told to update. What a version no longer needs is removed one version later.
"""

from collections.abc import Sequence
from typing import NamedTuple

from everturn.errors import StoreError


class Migration(NamedTuple):
    """The statements that lead to `version`, and the oldest program that works with the result."""

    version: int
    oldest: int
    statements: tuple[str, ...]


class SchemaVersion(NamedTuple):
    """What a database says about itself; version 0 is an empty one."""

    version: int = 0
    oldest: int = 0


def plan_migrations(found: SchemaVersion, migrations: Sequence[Migration], name: str) -> Sequence[Migration]:
    """The migrations that are still to be done. Raises if this program is too old for the database."""
    known = migrations[-1].version
    if found.oldest > known:
        raise StoreError(
            f"{name} was written by a newer everturn: its schema has version {found.version} and needs a "
            f"program that knows at least version {found.oldest}; this one knows {known}. Update everturn."
        )
    return [each for each in migrations if each.version > found.version]
