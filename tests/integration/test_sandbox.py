"""The mount namespace of nodeclaimd-bootstrap.service, made as systemd makes it from the unit's own lines: what is mounted on the
host while the unit runs (setup-local-disks binds /var/lib/kubelet to an array) is where its files go."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import needs

UNIT = Path(__file__).resolve().parents[2] / "systemd/nodeclaimd-bootstrap.service.in"

# $1: a folder that stands for the host's root. Outside: a shared mount, as systemd makes of "/". Inside: a slave of it, read-only
# but for $2 and those behind it.
HOST = """
set -e
root=$1; shift
mount -t tmpfs none "$root"
mount --make-shared "$root"
for path in /array "$@"; do mkdir -p "$root$path"; done
mkfifo "$root/ready" "$root/go"
unshare --mount --propagation unchanged sh -ec '
    root=$1; shift
    mount --make-rslave "$root"
    for path in "$@"; do mount --bind "$root$path" "$root$path"; done
    mount -o remount,bind,ro "$root"
    mount --make-rshared "$root"
    echo >"$root/ready"
    read -r mounts <"$root/go"
    echo text >"$root/var/lib/kubelet/kubeconfig"
    ! touch "$root/etc/other" 2>/dev/null || echo "writable: /etc"
' - "$root" "$@" &
read -r ready <"$root/ready"
[ "$DISKS" = no ] || mount --bind "$root/array" "$root/var/lib/kubelet"
echo >"$root/go"
wait $!
echo "array:" $(ls "$root/array")
[ "$DISKS" = no ] || umount "$root/var/lib/kubelet"
echo "root:" $(ls "$root/var/lib/kubelet")
"""


def settings(name: str) -> list[str]:
    lines = [s.strip() for s in UNIT.read_text().splitlines()]
    return [word for s in lines if s.startswith(name + "=") for word in s.partition("=")[2].split()]


@needs("CAP_SYS_ADMIN")
class Sandbox(unittest.TestCase):
    def host(self, disks: str) -> str:
        paths = [p.lstrip("-") for p in settings("ReadWritePaths")]
        with tempfile.TemporaryDirectory(prefix="nodeclaimd-sandbox-") as folder:
            done = subprocess.run(
                ["unshare", "--mount", "sh", "-c", HOST, "-", folder, *paths],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DISKS": disks},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
            )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_unit_is_what_is_tried_here(self) -> None:
        self.assertEqual(settings("ProtectSystem"), ["strict"])
        self.assertEqual(settings("MountFlags"), [])
        self.assertIn("-/var/lib/kubelet", settings("ReadWritePaths"))

    def test_disks_that_are_mounted_meanwhile(self) -> None:
        self.assertEqual(self.host("yes"), "array: kubeconfig\nroot:\n")

    def test_no_disks(self) -> None:
        self.assertEqual(self.host("no"), "array:\nroot: kubeconfig\n")


if __name__ == "__main__":
    unittest.main()
