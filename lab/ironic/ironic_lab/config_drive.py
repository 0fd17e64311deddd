"""Reading the config drive that a deployed machine would find, and what Ironic wrote into a ramdisk's ISO."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import Any

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

FOLDER = "/openstack/latest/"


def decode(config_drive: str | None) -> dict[str, Any] | None:
    """The files of a config drive as Ironic hands it to the agent: gzip in base64.

    None without a config drive. `files` has all of them in base64, by their paths. Metadata, user data and network
    data are read besides: None where there is no such file; user data is text, the others are JSON.
    """
    if not config_drive:
        return None
    image = gzip.decompress(base64.b64decode(config_drive))
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    try:
        files = {path: _read(iso, path) for path in _paths(iso)}
    finally:
        iso.close()
    meta_data = files.get(FOLDER + "meta_data.json")
    network_data = files.get(FOLDER + "network_data.json")
    user_data = files.get(FOLDER + "user_data")
    return {
        "meta_data": json.loads(meta_data) if meta_data else None,
        "network_data": json.loads(network_data) if network_data else None,
        "user_data": user_data.decode("utf-8", "replace") if user_data is not None else None,
        "files": {path.lstrip("/"): base64.b64encode(content).decode() for path, content in files.items()},
    }


def read_file(image: str, path: str) -> bytes | None:
    """A file of the ISO `image`; None if it has no such file, or is no ISO."""
    iso = pycdlib.PyCdlib()
    try:
        iso.open(image)
    except (OSError, PyCdlibException):
        return None
    try:
        return _read(iso, path)
    except PyCdlibException:
        return None
    finally:
        iso.close()


def _paths(iso: pycdlib.PyCdlib) -> list[str]:
    folders = iso.walk(joliet_path="/")
    return [f"{folder.rstrip('/')}/{name}" for folder, _, names in folders for name in names]


def _read(iso: pycdlib.PyCdlib, path: str) -> bytes:
    buffer = io.BytesIO()
    iso.get_file_from_iso_fp(buffer, joliet_path=path)
    return buffer.getvalue()
