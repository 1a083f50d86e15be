"""image/provision on the files of an image: what it adds, what it leaves as it was, and that a second run changes nothing.

It runs the offline part alone, without privileges and without network: packages and a chroot are for image/README.md's recipes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

import imagetree

TOP = Path(__file__).resolve().parents[2]
PROVISION = TOP / "image/provision"
UNITS = "/usr/lib/systemd/system"
OURS = ("nodeclaimd-bootstrap.service", "nodeclaimd.service", "nodeclaim-controller.service")


def state(root: Path) -> "dict[str, tuple[int, int, bytes]]":
    """Each file: inode, mode, content. A file that was written again has another inode."""
    found = {}
    for path in sorted(root.rglob("*")):
        s = path.lstat()
        if path.is_symlink():
            found[str(path)] = (s.st_ino, 0, os.readlink(path).encode())
        elif path.is_file():
            found[str(path)] = (s.st_ino, s.st_mode, path.read_bytes())
    return found


@unittest.skipUnless(shutil.which("systemctl"), "systemctl is missing")
class Provision(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = Path(self.enterContext(TemporaryDirectory()))
        self.root = self.dir / "root"
        self.root.mkdir()
        imagetree.chroot(self.dir / "bin")
        self.install = self.dir / "install"
        for unit in OURS:
            imagetree.write(self.install, f"{UNITS}/{unit}", imagetree.ONESHOT.format(unit, "true"))
        for path in ("80-nodeclaimd.preset", "kubelet.service.d/10-nodeclaimd.conf"):
            to = path if "/" in path else f"../system-preset/{path}"
            imagetree.write(self.install, os.path.normpath(f"{UNITS}/{to}"), (TOP / "systemd" / path).read_text())
        imagetree.write(self.install, "/usr/sbin/nodeclaimd", "#!/bin/sh\nexit 0\n", 0o755)

    def provision(self, *options: str, code: int = 0) -> str:
        env = dict(os.environ, PATH=f"{self.dir / 'bin'}:{os.environ['PATH']}")
        command = [str(PROVISION), "--root", str(self.root), "--no-packages", *options]
        done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def twice(self) -> str:
        said = self.provision("--install", str(self.install))
        before = state(self.root)
        self.assertEqual(self.provision("--install", str(self.install)), "provision: nothing to change\n")
        self.assertEqual(state(self.root), before)
        return said

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def enabled(self) -> "set[str]":
        return {p.name for p in self.root.glob("etc/systemd/system/*.wants/*")}

    def test_the_ami_loses_two_units_and_keeps_everything_else(self) -> None:
        imagetree.al2023(self.root)
        before = state(self.root)
        said = self.twice()
        after = state(self.root)
        gone = {Path(p).name for p in before.keys() - after.keys()}
        self.assertEqual(gone, {"nodeadm-config.service", "nodeadm-run.service"}, "their links alone")
        self.assertEqual({p for p in before.keys() & after.keys() if before[p] != after[p]}, set(), "nothing of the image is changed")
        self.assertEqual(
            {p.removeprefix(str(self.root)) for p in after.keys() - before.keys() if "/usr/" not in p},
            {
                "/etc/sysctl.d/90-nodeclaimd.conf",
                "/etc/systemd/system/multi-user.target.wants/nodeclaimd-bootstrap.service",
                "/etc/systemd/system/multi-user.target.wants/nodeclaimd.service",
            },
        )
        self.assertEqual(self.enabled(), {"nodeadm-boot-hook.service", "nodeclaimd-bootstrap.service", "nodeclaimd.service"})
        sysctls = self.text("etc/sysctl.d/90-nodeclaimd.conf")
        self.assertNotIn("overcommit", sysctls, "the image says it itself")
        self.assertIn("vm.panic_on_oom = 0\n", sysctls, "the image does not say it")
        self.assertIn("disabled nodeadm-run.service", said)

    def test_a_bare_debian_gets_what_it_has_not(self) -> None:
        imagetree.debian(self.root)
        self.twice()
        self.assertEqual(self.enabled(), {"containerd.service", "nodeclaimd-bootstrap.service", "nodeclaimd.service"})
        for program, version in imagetree.VERSION.items():
            self.assertEqual(self.text(f"etc/eks/{program}-version.txt"), version + "\n")
        self.assertIn("Slice=runtime.slice", self.text("etc/systemd/system/kubelet.service"))
        self.assertIn("Slice=runtime.slice", self.text("etc/systemd/system/containerd.service.d/10-nodeclaimd-slice.conf"))
        self.assertTrue((self.root / "etc/systemd/system/runtime.slice").exists())
        self.assertEqual(self.text("etc/modules-load.d/nodeclaimd.conf"), "overlay\nbr_netfilter\n")
        self.assertIn("kernel.panic = 10\n", self.text("etc/sysctl.d/90-nodeclaimd.conf"), "another file says 0, and is read earlier")
        self.assertIn("ManageForeignRoutes=no", self.text("etc/systemd/networkd.conf.d/80-nodeclaimd.conf"))
        self.assertIn("NODECLAIMD_OWNER=cni", self.text("etc/systemd/network/05-nodeclaimd-cni.network"))

    def test_a_new_kubelet_is_a_new_version_file(self) -> None:
        imagetree.debian(self.root)
        self.twice()
        imagetree.write(self.dir, "kubelet", "#!/bin/sh\necho Kubernetes v1.35.0\n", 0o755)
        self.assertEqual(
            self.provision("--kubelet", str(self.dir / "kubelet")),
            "provision: installed /usr/bin/kubelet\nprovision: wrote /etc/eks/kubelet-version.txt\n",
        )

    def test_what_it_cannot_do_without_is_named(self) -> None:
        imagetree.debian(self.root)
        self.assertIn("there is no nodeclaimd in this image", self.provision(code=1))
        (self.root / "usr/bin/kubelet").unlink()
        self.assertIn("there is no kubelet in this image", self.provision("--install", str(self.install), code=1))
        imagetree.write(self.root, "/etc/os-release", "ID=alpine\n")
        self.assertIn("neither Debian nor Amazon Linux", self.provision(code=1))

    def test_sealed(self) -> None:
        imagetree.debian(self.root)
        self.twice()
        for path in ("/etc/ssh/ssh_host_rsa_key", "/var/lib/cloud/instances/i-1/user-data.txt", "/var/lib/nodeclaimd/state.json"):
            imagetree.write(self.root, path, "mine\n")
        imagetree.write(self.root, "/etc/machine-id", "0123\n")
        self.provision("--seal")
        self.assertEqual(self.text("etc/machine-id"), "", "empty, not gone: systemd then makes one")
        self.assertEqual(self.provision("--seal"), "provision: nothing to change\n")
        for path in ("etc/ssh/ssh_host_rsa_key", "var/lib/cloud/instances", "var/lib/nodeclaimd/state.json"):
            self.assertFalse((self.root / path).exists(), path)


if __name__ == "__main__":
    unittest.main()
