"""Writes the file of API users anew: `python -m ironic_lab.users INSTANCE.JSON`.

Ironic looks at it at every request, so a running one takes the user of the instance's file from then on, and no other.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import bcrypt


def write(folder: pathlib.Path, instance: dict[str, Any]) -> None:
    """The file of API users, with the one that the instance has, if any.

    Every request pays for the check of a password, so a lab takes few rounds.
    """
    user = instance["api_user"]
    if not user:
        return
    salt = bcrypt.gensalt(instance["bcrypt_rounds"], prefix=b"2b")
    digest = bcrypt.hashpw(user["password"].encode(), salt).decode()
    new = folder / "htpasswd.new"
    new.write_text(f"{user['username']}:{digest}\n")
    new.replace(folder / "htpasswd")


def main() -> None:
    """Write it for one instance."""
    path = pathlib.Path(sys.argv[1]).resolve()
    write(path.parent, json.loads(path.read_text()))


if __name__ == "__main__":
    main()
