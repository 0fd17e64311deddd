"""Reading the config drive that a deployed machine would find."""

from __future__ import annotations

import base64
import gzip
import io
import json
from typing import Any

import pycdlib

FOLDER = "/openstack/latest/"


def decode(config_drive: str | None) -> dict[str, Any] | None:
    """Metadata, user data and network data of a config drive as Ironic hands it to the agent: gzip in base64.

    None without a config drive. A file that is not in it is None; user data is text and, for
    what is not text, base64; the others are JSON.
    """
    if not config_drive:
        return None
    image = gzip.decompress(base64.b64decode(config_drive))
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    try:
        meta_data = _read(iso, "meta_data.json")
        network_data = _read(iso, "network_data.json")
        user_data = _read(iso, "user_data")
    finally:
        iso.close()
    return {
        "meta_data": json.loads(meta_data) if meta_data else None,
        "network_data": json.loads(network_data) if network_data else None,
        "user_data": user_data.decode("utf-8", "replace") if user_data is not None else None,
        "user_data_base64": base64.b64encode(user_data).decode() if user_data is not None else None,
    }


def _read(iso: pycdlib.PyCdlib, name: str) -> bytes | None:
    buffer = io.BytesIO()
    try:
        iso.get_file_from_iso_fp(buffer, joliet_path=FOLDER + name)
    except pycdlib.pycdlibexception.PyCdlibInvalidInput:
        return None
    return buffer.getvalue()
