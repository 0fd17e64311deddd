"""ISO images through pycdlib: stands in for `genisoimage` and `mkisofs`, and makes the prebuilt ramdisk image."""

from __future__ import annotations

import os
import sys

import pycdlib

WITH_VALUE = ("-o", "-V", "-publisher", "-boot-load-size", "-e", "-b")


def build(tree: str, target: str, label: str, publisher: str = "", boot: str | None = None, efi: bool = False) -> None:
    """Write the folder `tree` as an ISO 9660 image with Rock Ridge and Joliet names."""
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=4, rock_ridge="1.09", joliet=3, vol_ident=label, pub_ident_str=publisher)
    for folder, subfolders, files in os.walk(tree):
        relative = os.path.relpath(folder, tree)
        prefix = "" if relative == "." else f"/{relative}"
        for name in sorted(subfolders):
            iso.add_directory(f"{prefix}/{name}", rr_name=name, joliet_path=f"{prefix}/{name}")
        for name in sorted(files):
            path = f"{prefix}/{name}"
            iso.add_file(os.path.join(folder, name), path, rr_name=name, joliet_path=path)
    if boot:
        iso.add_eltorito(f"/{boot}", efi=efi, media_name="noemul", boot_load_size=4)
    iso.write(target)
    iso.close()


def main() -> None:
    """Enough of genisoimage for Ironic: one folder, the options in `WITH_VALUE`, all others ignored."""
    options: dict[str, str] = {}
    tree = "."
    rest = iter(sys.argv[1:])
    for argument in rest:
        if argument in WITH_VALUE:
            options[argument] = next(rest)
        elif not argument.startswith("-"):
            tree = argument
    boot = options.get("-e") or options.get("-b")
    build(
        tree,
        options["-o"],
        options.get("-V", "CDROM"),
        publisher=options.get("-publisher", ""),
        boot=boot,
        efi="-e" in options,
    )
