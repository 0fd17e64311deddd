"""Fills the folder of a new instance: `python -m ironic_lab.prepare INSTANCE.JSON`.

Makes the images, the files that Ironic builds boot media of, and the file of API users.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
import tempfile

from ironic_lab import iso, users

MIB = 1 << 20
KIB = 1 << 10
DIGESTS = ("md5", "sha256", "sha512")


def prepare_images(images: pathlib.Path, size: int) -> None:
    """The deployed image with its checksums, a prebuilt ramdisk, and a kernel, ramdisk and boot loader to build one."""
    image = (b"the image of a simulated server\n" * (size // 32 + 1))[:size]
    (images / "tiny.img").write_bytes(image)
    for digest in DIGESTS:
        text = f"{hashlib.new(digest, image).hexdigest()}  tiny.img\n"
        (images / f"tiny.img.{digest}sum").write_text(text)
    for name, length in (("ipa.kernel", 64 * KIB), ("ipa.initramfs", 64 * KIB), ("esp.img", MIB)):
        (images / name).write_bytes(f"{name}\n".encode().ljust(length, b"\0"))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "readme").write_text("a prebuilt ramdisk that nobody boots\n")
        iso.build(folder, str(images / "ipa.iso"), "ipa")


def prepare_boot_files(boot: pathlib.Path) -> None:
    """What Ironic reads while it builds an ISO of a kernel and a ramdisk."""
    for name in ("isolinux.bin", "ldlinux.c32"):
        (boot / name).write_bytes(b"\0" * 2 * KIB)


def main() -> None:
    """Prepare one instance."""
    path = pathlib.Path(sys.argv[1]).resolve()
    instance = json.loads(path.read_text())
    folder = path.parent
    prepare_images(folder / "http" / "images", instance["image_size"])
    prepare_boot_files(folder / "boot")
    users.write(folder, instance)


if __name__ == "__main__":
    main()
