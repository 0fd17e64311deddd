"""Empties an Ironic database in place, whether Ironic runs or not: `python -m ironic_lab.wipe DATABASE`.

As if the database of a running Ironic had been lost and made anew: no node, port or anything else that clients made is
left. The conductor's own registration stays, because a running conductor renews it, but never makes it again.
"""

from __future__ import annotations

import sqlite3
import sys

KEPT = ("alembic_version", "conductors", "conductor_hardware_interfaces")


def wipe(path: str) -> int:
    """Delete all rows that clients made, in one transaction; how many."""
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("BEGIN IMMEDIATE")
        query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        tables = [name for (name,) in database.execute(query) if name not in KEPT]
        deleted = sum(database.execute(f'DELETE FROM "{table}"').rowcount for table in tables)
        database.execute("COMMIT")
        return deleted
    finally:
        database.close()


if __name__ == "__main__":
    print(wipe(sys.argv[1]))
