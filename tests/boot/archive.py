#!/usr/bin/python3
"""The pause image: one static program, in an archive as `docker save` writes it.

    archive.py PROGRAM ARCHIVE
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

from actors import IMAGE


def archive(program: Path, target: Path) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, arcname="pause")
    sha = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(target, mode="w") as tar:
        for name, data in (("layer.tar", layer.getvalue()), ("config.json", config), ("manifest.json", manifest)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    archive(Path(sys.argv[1]), Path(sys.argv[2]))
