#!/bin/bash
# tools.sh TREE: adds the emulator of Redfish BMCs to the tree of tools.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# libvirt's binding is Debian's.
"$here/in-root.sh" "$1" "$here" sh -ec '
  python3 -m venv --system-site-packages /opt/emulator
  /opt/emulator/bin/pip -q install --no-input --require-hashes -r "$0/emulator.lock"' "$here"
