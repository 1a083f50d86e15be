"""image/provision and `preflight --image` on the files of an image: what is added, what stays, what is missing in the end.

It is the offline part, without privileges and without network; packages are installed by ./dev machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import imagetree
from demo import install_tables
from harness import agent_path

import yamlread  # isort: skip: harness has made tests/fakes importable

TOP = Path(__file__).resolve().parents[2]
PROVISION = TOP / "image/provision"
UNITS = "/usr/lib/systemd/system"
NOTHING = r"\Aprovision: nothing to change\nsystemd +ok "
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


PROGRAM = '#include <stdio.h>\n#include <string.h>\nint main(int n, char **argument) { return puts(n > 1 && !strcmp(argument[1], "--help") ? "%s" : "%s") < 0; }\n'
MACHINE = os.uname().machine
PORT = MACHINE.replace("x86_64", "amd64").replace("aarch64", "arm64")
IS = f"*ARCH*) echo nodeclaimd {MACHINE} ;; *Architecture*) echo nodeclaimd {PORT} ;;"  # of a package
DEB, RPM = b"!<arch>\ndebian-binary", b"\xed\xab\xee\xdb"
PAUSE = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  containerd:
    config: |
      [plugins."io.containerd.cri.v1.images".pinned_images]
      sandbox = "registry.example/pause:3.10"
"""


@unittest.skipUnless(shutil.which("systemctl"), "systemctl is missing")
class Provision(unittest.TestCase):
    def setUp(self) -> None:
        self.dir = Path(self.enterContext(TemporaryDirectory()))
        self.root = self.dir / "root"
        self.root.mkdir()
        imagetree.chroot(self.dir / "bin")
        self.install = self.dir / "install"
        self.pause = self.install / "etc/nodeclaimd/conf.d/10-pause.yaml"
        imagetree.write(self.install, str(self.pause.relative_to(self.install)), PAUSE)
        for unit in OURS:
            imagetree.write(self.install, f"{UNITS}/{unit}", imagetree.ONESHOT.format(unit, "../sbin/nodeclaimd run"))
        for path in ("80-nodeclaimd.preset", "10-nodeclaimd.conf", "tmpfiles.d/80-nodeclaimd-node.conf"):
            imagetree.write(self.install, f"usr/share/nodeclaimd/systemd/{Path(path).name}", (TOP / "systemd" / path).read_text())
        (self.install / "usr/sbin").mkdir()
        shutil.copy(agent_path(), self.install / "usr/sbin/nodeclaimd")

    def provision(self, *options: str, code: int = 0, offline: str = "--no-packages") -> str:
        env = dict(os.environ, PATH=f"{self.dir / 'bin'}:{os.environ['PATH']}")
        command = [str(PROVISION), "--root", str(self.root), *offline.split(), *options]
        done = subprocess.run(command, env=env, text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def program(self, name: str, help_text: str, says: str) -> str:
        """What it says of itself, and whatever else it is asked."""
        path = self.dir / name
        subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-o", str(path), "-"], input=PROGRAM % (help_text, says), text=True, check=True, timeout=60)
        return str(path)

    def kubelet(self) -> str:
        return self.program("kubelet", "The kubelet, with a credential provider and --node-labels", "Kubernetes v1.35.0")

    def provider(self) -> str:
        return self.program("provider", "ECR credential provider for kubelet", "unknown flag: --version")

    def twice(self) -> str:
        said = self.provision("--install", str(self.install))
        before = state(self.root)
        self.assertRegex(self.provision("--install", str(self.install)), NOTHING)
        self.assertEqual(state(self.root), before)
        return said

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def enabled(self) -> "set[str]":
        return {p.name for p in self.root.glob("etc/systemd/system/*.wants/*")}

    def test_the_ami_loses_two_units_and_keeps_everything_else(self) -> None:
        imagetree.al2023(self.root)
        self.pause.unlink()
        before = state(self.root)
        said = self.twice()
        after = state(self.root)
        gone = {Path(p).name for p in before.keys() - after.keys()}
        self.assertEqual(gone, {"nodeadm-config.service", "nodeadm-run.service"}, "their links alone")
        self.assertEqual({p for p in before.keys() & after.keys() if before[p] != after[p]}, set(), "nothing of the image is changed")
        self.assertEqual(
            {p.removeprefix(str(self.root)) for p in after.keys() - before.keys() if "/usr/" not in p},
            {
                "/etc/sysctl.d/zz-nodeclaimd.conf",
                "/etc/systemd/system-preset/80-nodeclaimd.preset",
                "/etc/systemd/system/kubelet.service.d/10-nodeclaimd.conf",
                "/etc/tmpfiles.d/80-nodeclaimd-node.conf",
                "/etc/systemd/system/multi-user.target.wants/nodeclaimd-bootstrap.service",
                "/etc/systemd/system/multi-user.target.wants/nodeclaimd.service",
            },
        )
        self.assertEqual(self.enabled(), {"nodeadm-boot-hook.service", "nodeclaimd-bootstrap.service", "nodeclaimd.service"})
        self.assertEqual(self.text("etc/sysctl.d/zz-nodeclaimd.conf"), "".join(f"{k} = {v}\n" for k, v in (
            ("vm.panic_on_oom", 0), ("kernel.keys.root_maxkeys", 1000000), ("kernel.keys.root_maxbytes", 25000000))), "the image says the others itself")
        self.assertIn("disabled nodeadm-run.service", said)

    def test_no_image_without_a_pause_image(self) -> None:
        """Unless a document of the image names one."""
        imagetree.debian(self.root)
        self.pause.unlink()
        before = state(self.root)
        self.assertIn("there is no pause image", self.provision("--install", str(self.install), code=1))
        self.assertEqual(state(self.root), before, "which is known before anything is changed")
        self.pause.write_text("#" + PAUSE.replace("\n", "\n#"))
        self.assertIn("no pod can start", self.provision("--install", str(self.install), code=3))
        self.pause.write_text(PAUSE)
        self.assertIn("preflight passed", self.provision("--install", str(self.install)))

    def test_documents_are_judged_first(self) -> None:
        """Those of the image and of --install, by whichever nodeclaimd the image gets; behind its libraries only where it does not run before."""
        given = self.dir / "given"
        given.symlink_to(self.install)
        bad = PAUSE.replace("containerd:", "kubelet: {config: {featureGates: {AppArmor: true}}}\n  containerd:")
        agent = self.install / "usr/sbin/nodeclaimd"
        package = self.dir / "nodeclaimd.deb"
        package.write_bytes(DEB)
        refused = f"{given}/etc/nodeclaimd/conf.d/10-pause.yaml:4:47: spec.kubelet.config.featureGates.AppArmor: removed in Kubernetes 1.33"
        for of_package in (False, True):
            with self.subTest(of_package=of_package):
                shutil.rmtree(self.root)
                imagetree.debian(self.root)
                self.pause.write_text(bad)
                install_tables(self.install)
                options = ["--install", str(given)]
                if of_package:
                    subprocess.run(["tar", "-C", str(self.install), "-cf", str(self.dir / "content"), "./usr/sbin/nodeclaimd", "./usr/local/share/nodeclaimd"], check=True)
                    agent.unlink()
                    options += ["--package", str(package)]
                    imagetree.write(self.root, "/usr/bin/dpkg-deb", f"#!/bin/sh\ncase $* in {IS} --fsys*) cat {self.dir}/content ;; esac\n", 0o755)
                before = state(self.root)
                said = self.provision(*options, code=3)
                self.assertIn(refused, said)
                self.assertRegex(said, r"\Adocuments +failed .*\n +remedy: .*\nprovision: nothing was changed: .*\n\Z")
                self.assertEqual(state(self.root), before)
        (self.install / "library").touch()
        imagetree.write(self.install, "/usr/sbin/nodeclaimd", f'#!/bin/sh\n[ -e {self.root}/library ] || exit 127\nexec {agent_path()} "$@"\n', 0o755)
        (self.root / "usr/sbin/conntrack").rename(self.root / "conntrack")
        said = self.provision("--install", str(given), code=3)
        (self.root / "conntrack").rename(self.root / "usr/sbin/conntrack")
        self.assertIn(refused, said)
        self.assertNotIn("missing packages", said, "which come later")
        self.assertRegex(said, r"provision: files put back as they were: \d+\ndocuments +failed (.*\n)+provision: the image has a document that no node can boot with\n\Z")
        self.assertEqual(state(self.root), before)
        shutil.copy(agent_path(), agent)
        imagetree.write(self.root, "/usr/bin/kubelet", "#!/bin/sh\n[ $1 != --help ] || echo --node-labels\necho Kubernetes v1.30.2\n", 0o755)
        self.assertIn("preflight passed", self.provision("--install", str(self.install)), "as that kubelet takes it")
        agent.write_text("#!/bin/sh\ncase $0 in */nodeclaimd.*) exit 127 ;; esac\necho preflight failed\nexit 3\n")
        said = self.provision("--install", str(self.install), code=3)
        self.assertRegex(said, r"preflight failed\nprovision: the image lacks the above; changes that stay: 1\n\Z")

    def test_amazon_linux_gets_the_repository_of_cjson(self) -> None:
        """Only where the program needs it, and the image has it not."""
        imagetree.al2023(self.root)
        rpm = f"#!/bin/sh\ncase $* in {IS} *-qpR*) echo 'libcjson.so.1()(64bit)' ;; -K*) ;; *) exit %d ;; esac\n"
        package = self.dir / "nodeclaimd.rpm"
        package.write_bytes(RPM)
        for has, wanted in ((0, False), (1, True)):
            imagetree.write(self.root, "/usr/bin/rpm", rpm % has, 0o755)
            said = self.provision("--install", str(self.install), "--package", str(package))
            self.assertEqual("missing packages: spal-release" in said, wanted, said)
        self.assertNotIn("spal-release", self.provision("--install", str(self.install)), "ldd finds it")
        imagetree.write(self.root, "/usr/bin/ldd", "#!/bin/sh\necho 'libcjson.so.1 => not found'\n", 0o755)
        self.assertRegex(self.provision("--install", str(self.install)), "(?s)missing packages: spal-release.*missing packages: .*cjson")

    def test_a_package_is_missing_only_where_it_is(self) -> None:
        """By the name that the caller gave it, and where another version or another build of it is installed, too."""
        package = self.dir / "nodeclaimd_0.2.0_amd64.deb"
        package.write_bytes(DEB)
        (self.dir / "nodeclaimd.rpm").write_bytes(RPM)
        imagetree.debian(self.root)
        imagetree.write(self.root, "/usr/bin/dpkg-deb", f"#!/bin/sh\ncase $* in {IS} *) echo installed nodeclaimd 0.2.0-1 ;; esac\n", 0o755)
        version = "installed nodeclaimd 0.2.0-1"
        for has, sums, is_missing in ((version, version, False), (version, "", True), ("installed nodeclaimd 0.1.0-1", version, True),
                                      ("config-files nodeclaimd 0.2.0-1", version, True), ("", version, True)):
            with self.subTest(has, sums=sums):
                imagetree.write(self.root, "/usr/bin/dpkg-query", f"#!/bin/sh\ncase $1 in --control*) echo '{sums}' ;; *) echo '{has}' ;; esac\n", 0o755)
                said = self.provision("--install", str(self.install), "--package", str(package))
                self.assertEqual(f"provision: missing packages: {package}\n" in said, is_missing, said)
                self.assertNotIn("/usr/nodeclaimd.", said)
        shutil.rmtree(self.root)
        self.root.mkdir()
        imagetree.al2023(self.root)
        rpm = f"#!/bin/sh\ncase $* in {IS} *-qpR* | -K*) ;; *-qp*HEADER*) echo a ;; *-q*HEADER*) echo %s ;; *-qp*) echo nodeclaimd-0.2.0-1.x86_64 ;; *-q*nodeclaimd-0.2.0-1.x86_64) exit %d ;; esac\n"
        for build, code in (("a", 0), ("b", 0), ("a", 1)):
            with self.subTest(code, build=build):
                imagetree.write(self.root, "/usr/bin/rpm", rpm % (build, code), 0o755)
                said = self.provision("--install", str(self.install), "--package", str(self.dir / "nodeclaimd.rpm"))
                self.assertEqual(f"provision: missing packages: {self.dir / 'nodeclaimd.rpm'}\n" in said, (build, code) != ("a", 0), said)

    def test_the_package_is_installed_in_place_of_any_other(self) -> None:
        """Another build of the same version, which dnf's and apt's `install` keep; a later version, which apt's keeps."""
        package = self.dir / "nodeclaimd"
        called = self.dir / "called"
        imagetree.write(self.dir / "bin", "unshare", f'#!/bin/sh\nshift 9\necho "$*" >>{called}\n', 0o755)
        for tree, has, wanted in ((imagetree.debian, 0, "install --reinstall --allow-downgrades --no-install-recommends"),
                                  (imagetree.al2023, 0, "dnf -qy reinstall --setopt"), (imagetree.al2023, 1, "dnf -qy install --setopt")):
            with self.subTest(wanted):
                shutil.rmtree(self.root)
                tree(self.root)
                package.write_bytes(DEB if tree == imagetree.debian else RPM)
                imagetree.write(self.root, "/usr/bin/dpkg-deb", f"#!/bin/sh\ncase $* in {IS} --fsys*) ;; *) exit 1 ;; esac\n", 0o755)
                imagetree.write(self.root, "/usr/bin/rpm", f"#!/bin/sh\ncase $* in {IS} -qp*HEADER*) echo a ;; -qp* | -K*) ;; -qa*) echo bash ;; *) exit {has} ;; esac\n", 0o755)
                called.unlink(missing_ok=True)
                self.provision("--install", str(self.install), "--package", str(package), offline="")
                self.assertRegex(called.read_text(), f"(?m)^.*{wanted}.* /usr/nodeclaimd[.][^/]+/nodeclaimd$")
                self.assertEqual(list((self.root / "usr").glob("nodeclaimd.*")), [], "nothing of it stays")

    def test_a_command_behind_a_link_of_the_image(self) -> None:
        """As alternatives make it: what an absolute link names is in the image, whatever this machine has there."""
        here = self.dir / "here"
        here.write_bytes(b"")
        here.chmod(0o755)
        imagetree.debian(self.root)
        iptables = self.root / "usr/sbin/iptables"
        iptables.rename(iptables.with_name("xtables-nft-multi"))
        iptables.symlink_to("/etc/alternatives/iptables")
        alternative = self.root / "etc/alternatives/iptables"
        alternative.parent.mkdir()
        for target, code in (("/usr/sbin/xtables-nft-multi", 0), ("../../usr/sbin/xtables-nft-multi", 0), (here, 3), ("iptables", 6)):
            with self.subTest(target):
                alternative.unlink(missing_ok=True)
                alternative.symlink_to(target)
                said = self.provision("--install", str(self.install), code=code)
                self.assertEqual("missing packages: iptables" in said, code != 0, said)

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
        self.assertEqual(self.sysctls()["kernel.panic"], "10", "another file says 0")
        self.assertIn("ManageForeignRoutes=no", self.text("etc/systemd/networkd.conf.d/80-nodeclaimd.conf"))
        self.assertIn("NODECLAIMD_OWNER=cni", self.text("etc/systemd/network/05-nodeclaimd-cni.network"))

    def sysctls(self) -> "dict[str, str]":
        """What a boot sets: the files in systemd's own order."""
        command = ["systemd-analyze", "cat-config", "--root", str(self.root), "sysctl.d"]
        text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        return {key: re.sub(r"\s+", "", value) for key, value in re.findall(r"(?m)^-?\s*([\w./-]+)\s*=(.*)$", text)}

    def test_sysctls_that_the_image_sets(self) -> None:
        """What kubelet insists on is forced. A limit is raised and never lowered; ports that the image reserves stay reserved."""
        ports = "2703,9808,9809,10249,10250,10256,61678,61679"
        reserved, limit = "net.ipv4.ip_local_reserved_ports", "vm.max_map_count"
        for rows in (
            (
                ("etc", "60-mine", limit, "1048576", "1048576"),
                ("etc", "60-mine", "fs.inotify.max_user_watches", "1048576", "1048576"),
                ("usr/lib", "60-less", "net.ipv4.ip_forward", "0", "1"),
                ("etc", "60-mine", reserved, "30000-32767", f"30000-32767,{ports}"),
                ("etc", "60-mine", "vm.panic_on_oom", "1", "0"),
                ("etc", "99-sysctl", "kernel/keys/root_maxkeys", "2000000", "1000000"),
            ),
            (
                ("usr/lib", "99-sysctl", limit, "65530", "524288"),
                ("run", "65-run", "kernel.pid_max", "many", "4194304"),
                ("etc", "60-mine", reserved, "9000-10249, 61678", "9000-10249,61678,2703,10250,10256,61679"),
            ),
            (("etc", "99-sysctl", reserved, f"{ports},9999", f"{ports},9999"),),
            (("run", "60-mine", reserved, "1-65535", "1-65535"),),
            (("etc", "60-mine", reserved, "", ports),),
        ):
            shutil.rmtree(self.root)
            imagetree.debian(self.root)
            files: "dict[str, str]" = {}
            for folder, file, key, image, _ in rows:
                path = f"{folder}/sysctl.d/{file}.conf"
                files[path] = files.get(path, "") + f"{key}={image}\n"
            for path, text in files.items():
                imagetree.write(self.root, path, text)
            said, booted = self.twice(), self.sysctls()
            for _, _, key, image, wanted in rows:
                with self.subTest(key=key, image=image):
                    key = key.replace("/", ".")
                    self.assertEqual(booted[key], wanted)
                    line = f"provision: {key} = {wanted}: the image says {image}\n"
                    self.assertEqual(line in said, image not in (wanted, ""), said)

    def test_sysctls_in_the_order_in_which_they_are_read(self) -> None:
        """Of equal names the file in /etc counts, of one key the file with the last name; our own files say nothing of the image."""
        imagetree.debian(self.root)
        for path, value in (("usr/lib/sysctl.d/70-a", 9999999), ("run/sysctl.d/70-a", 9999998), ("etc/sysctl.d/70-a", 1), ("usr/lib/sysctl.d/60-b", 9999997),
                            ("etc/sysctl.d/90-nodeclaimd", 9999996), ("etc/sysctl.d/zz-nodeclaimd", 9999995)):
            imagetree.write(self.root, f"{path}.conf", f"kernel.pid_max = {value}\n")
        self.assertIn("provision: removed /etc/sysctl.d/90-nodeclaimd.conf\n", self.twice())
        self.assertEqual(self.sysctls()["kernel.pid_max"], "4194304")
        wanted = self.text("etc/sysctl.d/zz-nodeclaimd.conf")
        imagetree.write(self.root, "etc/sysctl.d/99-all.conf", wanted)
        self.assertIn("provision: removed /etc/sysctl.d/zz-nodeclaimd.conf\n", self.twice())
        self.assertEqual(self.text("etc/sysctl.d/99-all.conf"), wanted)

    def test_the_readme_names_each_file_that_it_writes(self) -> None:
        program, provider = self.kubelet(), self.provider()
        script = PROVISION.read_text()
        links, written = set(re.findall(r"\blink (/\S+)", script)), set()
        for tree in (imagetree.al2023, imagetree.debian, imagetree.amazon):
            shutil.rmtree(self.root)
            tree(self.root)
            before = state(self.root)
            self.provision("--install", str(self.install), "--kubelet", program, "--ecr-credential-provider", provider)
            after = state(self.root)
            changed = {"/" + str(Path(p).relative_to(self.root)) for p in after if before.get(p) != after[p]}
            written |= {p for p in changed if p in links or not (self.root / p[1:]).is_symlink()}
        written -= {"/" + str(p.relative_to(self.install)) for p in self.install.rglob("*")}
        put = links | set(re.findall(r"(?:\bput |\nsysctl_file=|\bours=)(/[^\s$]+)\s", script))
        self.assertLessEqual(put, written, "each is tried here")
        readme = (TOP / "image/README.md").read_text()
        named = set(re.findall(r"`(/[^`]+)`", "".join(re.findall(r"(?m)^\|.*", readme))))
        self.assertEqual(named, written | {"/etc/eks/pause.tar"})
        for package in re.findall(r"install_packages ([a-z-]+)$", script, re.M):
            self.assertIn(f"`{package}`", readme)

    def test_upgrades_at_the_first_boot(self) -> None:
        """Off where Amazon Linux has them, unless the image has decided itself."""
        ours = self.root / "etc/cloud/cloud.cfg.d/80-nodeclaimd.cfg"
        imagetree.amazon(self.root)
        self.twice()
        self.assertEqual(ours.read_text(), "repo_upgrade: none\n")
        imagetree.write(self.root, "/etc/cloud/cloud.cfg.d/50-mine.cfg", "repo_upgrade: bugfix\n")
        self.twice()
        self.assertFalse(ours.exists())

    def test_ubuntu_s_eks_image_runs_one_kubelet(self) -> None:
        imagetree.ubuntu_eks(self.root)
        said = self.provision("--install", str(self.install))
        for line in ("installed /usr/bin/kubelet", "installed /etc/eks/image-credential-provider/ecr-credential-provider", "disabled snap.kubelet-eks.daemon.service",
                     "wrote /etc/systemd/system/kubelet.service"):
            self.assertIn(f"provision: {line}\n", said)
        self.assertFalse((self.root / "etc/systemd/system/multi-user.target.wants/snap.kubelet-eks.daemon.service").is_symlink())
        self.assertEqual((self.root / "etc/eks/kubelet-version.txt").read_text(), imagetree.VERSION["kubelet"] + "\n")
        self.assertRegex(self.provision("--install", str(self.install)), NOTHING)

    def test_a_new_kubelet_is_a_new_version_file(self) -> None:
        imagetree.debian(self.root)
        self.twice()
        self.assertRegex(
            self.provision("--kubelet", self.kubelet()),
            r"\Aprovision: installed /usr/bin/kubelet\nprovision: wrote /etc/eks/kubelet-version.txt\nsystemd +ok ",
        )

    def test_what_it_cannot_do_without_is_named(self) -> None:
        imagetree.debian(self.root)
        self.assertIn("there is no nodeclaimd in this image", self.provision(code=1))
        imagetree.write(self.root, "/usr/bin/dpkg-deb", """#!/bin/sh
case $* in *Architecture*/deb) echo kubectl-nodeclaim all ;; *Architecture*other.deb) echo nodeclaimd riscv64 ;; *Architecture*half.deb) echo nodeclaimd %s ;;
    *) exit 2 ;; esac
""" % PORT, 0o755)
        before = state(self.root)
        program = agent_path().read_bytes()
        contents = {"file": b"", "rpm": RPM, "foreign": program[:18] + b"\x16" + program[19:], "program": program, "tar": b"\0" * 257 + b"ustar", "deb": DEB, "other.deb": DEB,
                    "bad.deb": DEB, "half.deb": DEB, "half": program[:4096]}
        for name, content in contents.items():
            (self.dir / name).write_bytes(content)
        pause = '"localhost/kubernetes/pause:latest"'
        self.archive("plain.tar", layer_tar="")
        self.archive("name.tar", manifest_json='[{"RepoTags": ["registry.k8s.io/pause:3.10"]}]')
        self.archive("blob.tar", index_json='{"manifests": [{"digest": "sha256:%s", "annotations": {"io.containerd.image.name": %s}}]}' % ("0" * 64, pause))
        self.archive("arch.tar", manifest_json='[{"RepoTags": [%s]}]' % pause, config_json='{"architecture":"riscv64"}')
        self.kubelet()
        self.provider()
        given = self.dir / "given"
        given.symlink_to(self.dir)
        self.program("scheduler", "The Kubernetes scheduler is a process", "Kubernetes v1.35.0")
        for option, name, message in (
            ("--install", "file", "is not a folder"),
            ("--kubelet", "root", "is not a file"),
            ("--pause-image", "root", "is not a file"),
            ("--package", "rpm", "is no package of this distribution"),
            ("--package", "program", "is no package of this distribution"),
            ("--kubelet", "tar", f"is no program for {os.uname().machine}"),
            ("--kubelet", "foreign", f"is no program for {os.uname().machine}"),
            ("--ecr-credential-provider", "file", f"is no program for {os.uname().machine}"),
            ("--pause-image", "program", "is no archive of tar"),
            ("--pause-image", "tar", "is damaged or not complete"),
            ("--pause-image", "plain.tar", "is no archive of an image: it has no index.json and no manifest.json"),
            ("--pause-image", "name.tar", "has no image localhost/kubernetes/pause:latest"),
            ("--pause-image", "blob.tar", f"lacks blobs/sha256/{'0' * 64}, which its index names"),
            ("--pause-image", "arch.tar", f"has no image for {os.uname().machine}"),
            ("--kubelet", "program", 'is no kubelet: its --version says "nodeclaimd '),
            ("--kubelet", "half", "does not run in the image (exit code 1"),
            ("--ecr-credential-provider", "program", "is no ECR credential provider: its --help says \""),
            ("--kubelet", "scheduler", 'is no kubelet: its --help says "The Kubernetes scheduler is a process"'),
            ("--kubelet", "provider", 'is no kubelet: its --version says "unknown flag: --version"'),
            ("--ecr-credential-provider", "kubelet", 'is no ECR credential provider: its --version says "Kubernetes v1.35.0"'),
            ("--package", "half.deb", "is damaged or not complete"),
            ("--package", "deb", "is kubectl-nodeclaim, not nodeclaimd"),
            ("--package", "other.deb", "is for riscv64, not for " + MACHINE),
            ("--package", "bad.deb", "is not readable, not nodeclaimd"),
        ):
            with self.subTest(option, name=name):
                message = f"provision: {option}: {given / name} {message}"
                options = (option, given / name)
                self.assertIn(message, self.provision("--install", str(self.install), *map(str, options), code=2, offline=""))
        path = self.dir / "names-itself"
        source = '#include <stdio.h>\n#include <string.h>\nint main(int n, char **argument) { return printf("Usage: %s\\n", strstr(argument[0], "/usr/nodeclaimd.")) < 0; }\n'
        subprocess.run([os.environ.get("CC", "cc"), "-x", "c", "-o", str(path), "-"], input=source, text=True, check=True, timeout=60)
        said = self.provision("--install", str(self.install), "--ecr-credential-provider", str(path), code=2, offline="")
        self.assertIn(f'is no ECR credential provider: its --help says "Usage: {path}"\n', said, "as it was given")
        for options in (("--kubelet",), ("--kubelet", "")):
            self.assertIn("--kubelet needs a value", self.provision(*options, code=2))
        for given, meant in (("--pakage", "--package"), ("--packages", "--package"), ("--no-package", "--no-packages"), ("--kubelet=/k", "--kubelet"), ("--pause-imge", "--pause-image"),
                             ("kubelet", ""), ("--", ""), ("-r", ""), ("--*", ""), ("", "")):  # fmt: skip
            near = f"; did you mean {meant}?" if meant else ""
            self.assertEqual(self.provision(given, "/none", code=2), f"provision: unknown option: {given}{near}\ntry: provision --help\n")
        self.assertIn("--kubelet: there is no /none", self.provision("--kubelet", "/none", code=2))
        said = self.provision("--kubelet", "/none", "--ecr-credential-provider", str(self.dir / "file"), "--pause-image", str(self.dir / "name.tar"),
                              "--package", str(self.dir / "deb"), code=2, offline="")
        self.assertEqual(sorted(re.findall(r"^provision: (--\S+):", said, re.M)), ["--ecr-credential-provider", "--kubelet", "--package", "--pause-image"], "all at once")
        self.assertEqual(state(self.root), before, "nothing was changed")
        imagetree.write(self.root, "/usr/bin/kubelet", "#!/bin/sh\necho Kubernetes v1.35.0\n", 0o755)
        self.assertIn("the kubelet of this image is another program", self.provision("--install", str(self.install), code=1))
        (self.root / "usr/bin/kubelet").unlink()
        self.assertIn("there is no kubelet in this image", self.provision("--install", str(self.install), code=1))
        self.assertEqual(re.findall("provision: there is no (.*?)(?: in|:)", self.provision(code=1)), ["kubelet", "nodeclaimd", "pause image"], "all at once")
        imagetree.write(self.dir / "bin", "id", "#!/bin/sh\necho 1000\n", 0o755)
        self.assertIn("run it as root", self.provision(code=1))
        imagetree.write(self.root, "/etc/os-release", "ID=alpine\n")
        self.assertIn("neither Debian nor Amazon Linux", self.provision(code=1))
        (self.root / "etc/os-release").unlink()
        self.assertRegex(self.provision(code=1), r"\Aprovision: there is no .*/etc/os-release: is .*\n\Z")

    def test_a_library_that_a_program_lacks(self) -> None:
        imagetree.debian(self.root)
        compiler = [os.environ.get("CC", "cc"), "-x", "c", "-"]
        subprocess.run([*compiler, "-shared", "-o", self.dir / "libgone.so"], input="int gone(void) { return 0; }", text=True, check=True, timeout=60)
        subprocess.run([*compiler, "-o", self.dir / "k", "-L", self.dir, "-lgone"], input="int gone(void); int main(void) { return gone(); }", text=True, check=True, timeout=60)
        (self.dir / "libgone.so").unlink()
        said = self.provision("--install", str(self.install), "--kubelet", str(self.dir / "k"), code=2)
        self.assertIn("does not run in the image (exit code 127): error while loading shared libraries: libgone.so: cannot open", said)

    def test_programs_of_the_image_are_tried_first(self) -> None:
        imagetree.debian(self.root)
        imagetree.write(self.root, "/usr/bin/containerd", "#!/bin/sh\nexit 1\n", 0o755)
        before = state(self.root)
        said = self.provision("--install", str(self.install), code=1)
        self.assertIn("containerd --version failed", said)
        self.assertNotIn("installed", said, "before anything is changed")
        self.assertEqual(state(self.root), before)

    def archive(self, name: str, **files: str) -> str:
        """Of these files, whose names have a dot in place of the last _."""
        with tarfile.open(self.dir / name, "w") as tar:
            for file, text in files.items():
                one = tarfile.TarInfo("./" + ".".join(file.rsplit("_", 1)))
                one.size = len(text)
                tar.addfile(one, io.BytesIO(text.encode()))
        return str(self.dir / name)

    def pause_image(self) -> str:
        return self.archive("pause.tar", manifest_json='[{"Config": "config.json", "RepoTags": ["localhost/kubernetes/pause:latest"]}]',
                            config_json='{"architecture": "%s"}' % PORT)

    def test_what_a_step_that_fails_leaves(self) -> None:
        """Files and folders are as they were; all packages that came are named, and the command that takes them out."""
        imagetree.debian(self.root)
        (self.root / "usr/sbin/conntrack").unlink()
        came = self.dir / "came"
        imagetree.write(self.root, "/usr/bin/dpkg-query", "#!/bin/sh\n"
                        f"case $* in --search*/etc/nodeclaimd*) exit ;; --search*) exit 1 ;; esac\necho 'installed libc6\nnot-installed udev\nconfig-files mawk'\n[ ! -e {came} ] || cat {came}\n", 0o755)
        for path in ("usr/bin/containerd", "usr/bin/kubelet"):
            imagetree.write(self.root, path, f"#!/bin/sh\necho '{imagetree.VERSION[Path(path).name]}'\n", 0o755)
        imagetree.write(self.dir / "bin", "unshare", '#!/bin/sh\nshift 9\ncase $* in *apt-get*) echo "installed udev\ninstalled conntrack\nunpacked libmnl0" >%s; exit 0 ;; esac\nexec "$@"\n' % came, 0o755)
        imagetree.write(self.dir / "bin", "containerd", "#!/bin/sh\necho starting\necho 'containerd: no space left' >&2\nexit 1\n", 0o755)
        content = {path: what[1:] for path, what in state(self.root).items()}
        folders = {path for path in self.root.rglob("*") if path.is_dir()}
        said = self.provision("--install", str(self.install), "--kubelet", self.kubelet(), "--ecr-credential-provider", self.provider(),
                              "--pause-image", self.pause_image(), code=1, offline="")
        self.assertRegex(said, r"\nprovision: files put back as they were: \d+\nprovision: left in the image: packages: apt-get purge conntrack libmnl0 udev\n"
                         r"provision: cannot import localhost/kubernetes/pause:latest from .*/pause\.tar: containerd: containerd: no space left\n\Z")
        self.assertEqual({path: what[1:] for path, what in state(self.root).items()}, content)
        owned = {self.root / "etc/nodeclaimd", self.root / "etc/nodeclaimd/conf.d"}  # of a package that came
        self.assertEqual({path for path in self.root.rglob("*") if path.is_dir()}, folders | owned, "an empty one is where preflight misses what belongs there")

    def test_a_program_that_fails_in_a_step(self) -> None:
        imagetree.debian(self.root)
        imagetree.write(self.dir / "bin", "ln", "#!/bin/sh\necho 'ln: no space left' >&2\nexit 1\n", 0o755)
        content = {path: what[1:] for path, what in state(self.root).items()}
        said = self.provision("--install", str(self.install), code=1)
        self.assertRegex(said, r"\nln: no space left\nprovision: files put back as they were: \d+\nprovision: stopped at: ln -sfT .*\n\Z")
        self.assertEqual({path: what[1:] for path, what in state(self.root).items()}, content)

    def test_an_archive_that_is_not_imported(self) -> None:
        """What came of it is removed again, and what ctr says is said."""
        imagetree.debian(self.root)
        imagetree.write(self.dir / "bin", "unshare", '#!/bin/sh\nshift 9\nexec "$@"\n', 0o755)
        imagetree.write(self.dir / "bin", "ctr", f"""#!/bin/sh
case $* in
    *" ls "*) cat {self.dir}/images 2>/dev/null ;;
    *" import "*) echo a.example/other:1 >{self.dir}/images ;;
    *" label "*) echo 'ctr: image not found' >&2; exit 1 ;;
    *" rm "*) echo "$*" >{self.dir}/removed ;;
esac
""", 0o755)
        address = str(self.dir / "c.sock")
        with socket.socket(socket.AF_UNIX) as listening, mock.patch.dict(os.environ, CONTAINERD_ADDRESS=address):
            listening.bind(address)
            said = self.provision("--install", str(self.install), "--pause-image", self.pause_image(), code=1)
        self.assertIn("/pause.tar: ctr: image not found\n", said)
        self.assertEqual((self.dir / "removed").read_text(), "--namespace k8s.io images rm a.example/other:1\n")
        self.assertFalse((self.root / "etc/eks/pause.tar").exists())

    def test_sealed(self) -> None:
        imagetree.debian(self.root)
        self.twice()
        mine = (
            "etc/ssh/ssh_host_rsa_key",
            "var/lib/cloud/instances/i-1/user-data.txt",
            "var/lib/nodeclaimd/.state.json.new",
            "etc/nodeclaimd/kubelet.env",
            "etc/kubernetes/kubelet/bootstrap-kubeconfig",
            "var/lib/kubelet/kubeconfig",
            "etc/systemd/system.conf.d/environment.conf",
            "etc/systemd/system/my@x.service.d/environment.conf",
        )
        of_the_image = "etc/systemd/system/chronyd.service.d/environment.conf"
        for path in (*mine, of_the_image):
            imagetree.write(self.root, path, "mine\n")
        imagetree.write(self.root, "/var/lib/nodeclaimd/environment-services", "default\nmy@x\n")
        imagetree.write(self.root, "/etc/machine-id", "0123\n")
        self.provision("--seal")
        self.assertEqual(self.text("etc/machine-id"), "", "empty, not gone: systemd then makes one")
        self.assertRegex(self.provision("--seal"), NOTHING)
        for path in mine:
            self.assertFalse((self.root / path).exists(), path)
        self.assertTrue((self.root / of_the_image).exists())

    def test_sealed_without_caches(self) -> None:
        """The package manager's own command runs where it has kept anything, and there alone."""
        for tree, path, kept, manager, lists in (
            (imagetree.debian, "/var/cache/apt", ("archives/a_1_all.deb", "pkgcache.bin"), "apt-get", ["/var/lib/apt/lists"]),
            (imagetree.amazon, "/var/cache/dnf", ("amazonlinux-0123/packages/a-1.noarch.rpm", "amazonlinux.solv"), "dnf", []),
        ):
            for name in kept:
                with self.subTest(tree.__name__, name=name):
                    shutil.rmtree(self.root)
                    tree(self.root)
                    self.provision("--install", str(self.install), "--seal")
                    imagetree.write(self.root, f"{path}/{name}", "kept\n")
                    for at in lists:
                        imagetree.write(self.root, f"{at}/a_Packages", "list\n")
                        (self.root / at[1:] / "partial").mkdir()
                    imagetree.write(self.root, f"/usr/bin/{manager}", f"#!/bin/sh\necho said\nrm '{self.root}{path}/{name}'\necho $* >>'{self.dir}/asked-{manager}'\n", 0o755)
                    said = self.provision("--seal")
                    self.assertEqual(re.findall("(?m)^provision: (.*)", said), [f"emptied {p}" for p in (path, *lists)])
                    self.assertNotIn("said", said)
                    self.assertRegex(self.provision("--seal"), NOTHING)
                    self.assertEqual([p for at in lists for p in (self.root / at[1:]).iterdir()], [])
            self.assertRegex((self.dir / f"asked-{manager}").read_text(), r"\A(?:(-q )?clean( all)?\n){2}\Z")

    def test_links_lead_nowhere_else(self) -> None:
        """Absolute symbolic links of the image name files of this machine while the image is made beside it."""
        outside = self.dir / "outside"
        imagetree.write(outside, "instances/i-1", "this machine's\n")
        before = state(outside)
        for path, target in (("etc/eks", ""), ("etc/udev", ""), ("var/lib/cloud", ""), ("etc/machine-id", "instances/i-1")):
            with self.subTest(path):
                shutil.rmtree(self.root)
                imagetree.debian(self.root)
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path).symlink_to(outside / target)
                self.assertIn(f"/{path}", self.provision("--install", str(self.install), "--seal", code=1))
                self.assertEqual(state(outside), before)

    def test_folders_in_the_place_of_files(self) -> None:
        """Nothing is written into them."""
        kubelet = self.kubelet()
        for path in ("etc/sysctl.d/zz-nodeclaimd.conf", "usr/bin/kubelet", "etc/eks/pause.tar"):
            with self.subTest(path):
                shutil.rmtree(self.root)
                imagetree.debian(self.root)
                (self.root / "usr/bin/kubelet").unlink()
                (self.root / path).mkdir(parents=True)
                pause = ("--pause-image", self.pause_image()) if "pause" in path else ()
                said = self.provision("--install", str(self.install), "--kubelet", kubelet, *pause, code=1)
                self.assertIn(f"provision: /{path} is a folder in the image: a file belongs there\n", said)
                self.assertEqual(list((self.root / path).iterdir()), [])

    def test_links_within_the_image(self) -> None:
        imagetree.debian(self.root)
        imagetree.write(self.root, "/opt/eks/release", "")
        (self.root / "etc/eks").symlink_to("../opt/eks")
        imagetree.write(self.root, "/var/lib/cloud/instances/i-1/user-data.txt", "mine\n")
        (self.root / "var/lib/cloud/instance").symlink_to("/var/lib/cloud/instances/i-1")
        self.provision("--install", str(self.install), "--seal")
        self.assertTrue((self.root / "opt/eks/kubelet-version.txt").exists())
        self.assertFalse(os.path.lexists(self.root / "var/lib/cloud/instance"))


class Removal(unittest.TestCase):
    """What the packages' scripts do at the end with the links that image/provision made."""

    def test_only_links_that_lead_nowhere_go(self) -> None:
        command, *others = (re.findall(r"(?m)^    (find /etc/.*)$", (TOP / path).read_text()) for path in ("debian/nodeclaimd.postrm", "nodeclaimd.spec"))
        self.assertEqual([command], others)
        root = Path(self.enterContext(TemporaryDirectory()))
        ours = root / "usr/share/nodeclaimd/systemd"
        imagetree.write(ours, "there.conf", "")
        for folder in ("system-preset", "system/kubelet.service.d"):
            for name, target in (("gone", f"{ours}/gone.conf"), ("there", f"{ours}/there.conf"), ("other", "/usr/share/other/gone.conf")):
                (root / "etc/systemd" / folder).mkdir(parents=True, exist_ok=True)
                (root / "etc/systemd" / folder / name).symlink_to(target)
        (root / "etc/systemd/system-preset/relative").symlink_to("../../../usr/share/nodeclaimd/systemd/gone.preset")
        imagetree.write(root, "etc/systemd/system-preset/file", "")
        subprocess.run(["sh", "-ec", command[0].replace("/etc/", f"{root}/etc/")], check=True, timeout=60)
        self.assertEqual({p.name for p in (root / "etc/systemd").rglob("*") if not p.is_dir()}, {"there", "other", "file"})


@unittest.skipUnless(shutil.which("systemctl"), "systemctl is missing")
class Presets(unittest.TestCase):
    """What a first boot does, with the units as they are installed, on a distribution that enables all there are."""

    def make(self, verb: str) -> None:
        what = ("nodist_systemdsystemunitDATA", "dist_systemdsystemunitDATA", "dist_systempresetDATA", "dist_ofimageDATA")
        build = agent_path().parent
        if not (build / "Makefile").exists():
            self.skipTest("the program is in no build folder")
        subprocess.run(["make", "-s", "-C", str(build), *(f"{verb}-{w}" for w in what), f"DESTDIR={self.root}"], check=True, timeout=60, capture_output=True)

    def enabled(self) -> "set[str]":
        subprocess.run(["systemctl", f"--root={self.root}", "--quiet", "preset-all"], check=True, timeout=60)
        return {p.name for p in self.root.glob("etc/systemd/system/*.wants/*")}

    def test_only_an_image_has_units_that_are_enabled(self) -> None:
        self.root = Path(self.enterContext(TemporaryDirectory()))
        imagetree.merged_usr(self.root)
        self.make("install")
        ours = {p.name for p in self.root.rglob("*nodeclaim*") if p.suffix in (".service", ".target")}
        presets = sorted(self.root.rglob("system-preset/85-*.preset"))
        self.assertEqual(sorted(f"disable {unit}" for unit in ours), sorted(line for p in presets for line in p.read_text().splitlines() if line[0] != "#"))
        imagetree.write(self.root, "/usr/lib/systemd/system-preset/90-systemd.preset", "enable *\n")
        imagetree.write(self.root, f"{UNITS}/other.service", imagetree.ONESHOT.format("other", "true"))
        self.assertEqual(self.enabled(), {"other.service"})
        (preset,) = self.root.rglob("80-nodeclaimd.preset")
        link = self.root / "etc/systemd/system-preset/80-nodeclaimd.preset"
        link.parent.mkdir()
        link.symlink_to(os.path.relpath(preset, link.parent))
        self.assertEqual(self.enabled(), {"other.service", "nodeclaimd-bootstrap.service", "nodeclaimd.service"})
        link.unlink()
        self.make("uninstall")
        self.assertEqual([p for p in self.root.rglob("*nodeclaim*") if p.is_file() and not p.is_symlink()], [])


class Preflight(unittest.TestCase):
    """The AMI as Amazon ships it is no image of ours; each other fault is put into one that is."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(TemporaryDirectory()))
        self.tables = Path(self.enterContext(TemporaryDirectory()))
        install_tables(self.tables)

    def lines(self, code: int) -> "dict[str, list[dict[str, str]]]":
        command = [str(agent_path()), "preflight", "--image", str(self.root), "-o", "json", "--root", str(self.tables)]
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        found: "dict[str, list[dict[str, str]]]" = {}
        for entry in json.loads(done.stdout):
            self.assertEqual(bool(entry["remedy"]), entry["outcome"] != "ok", entry)
            found.setdefault(entry["check"], []).append(entry)
        return found

    def test_the_ami_as_it_is(self) -> None:
        imagetree.al2023(self.root)
        found = self.lines(3)
        failed = {check for check, entries in found.items() if entries[0]["outcome"] == "failed"}
        self.assertEqual(failed, {"kubelet", "nodeadm", "units"})
        self.assertIn("/etc/eks/kubelet/environment", found["kubelet"][1]["detail"])
        self.assertEqual(len(found["nodeadm"]), 2)

    def test_remedies_name_the_script_of_the_package(self) -> None:
        imagetree.al2023(self.root)
        for name in ("etc/eks/pause.tar", "etc/eks/image-credential-provider/ecr-credential-provider"):
            (self.root / name).unlink()
        remedies = [entry["remedy"] for entries in self.lines(3).values() for entry in entries]
        for option in ("--pause-image FILE", "--ecr-credential-provider FILE"):
            (remedy,) = [one for one in remedies if option in one]
            self.assertIn("/usr/share/nodeclaimd/provision", remedy)

    def test_which_pause_image(self) -> None:
        imagetree.al2023(self.root)
        self.assertEqual(self.lines(3)["pause"][0]["detail"], "/etc/eks/pause.tar")
        (self.root / "etc/eks/pause.tar").unlink()
        imagetree.write(self.root, "/etc/nodeclaimd/conf.d/10-pause.yaml", PAUSE)
        self.assertEqual(self.lines(3)["pause"][0]["detail"], "a document names one")

    def test_links_do_not_lead_out(self) -> None:
        """The file that the link names exists on this machine, not in the image."""
        imagetree.al2023(self.root)
        (self.root / "usr/bin/kubelet").unlink()
        (self.root / "usr/bin/kubelet").symlink_to(sys.executable)
        found = self.lines(3)["kubelet"][0]
        self.assertIn("there is no such program", found["detail"])
        self.assertIn("image/provision (/usr/share/nodeclaimd/provision)", found["remedy"], "who has no sources")

    def test_names_are_not_a_terminals_commands(self) -> None:
        """Neither a line of our own nor an escape sequence comes from the image."""
        imagetree.al2023(self.root)
        imagetree.write(self.root, "/etc/systemd/system/kubelet.service.d/x\x1b[2J\u009b2J\nkubelet      ok.conf", "[Service]\nEnvironmentFile=/y\n")
        command = [str(agent_path()), "preflight", "--image", str(self.root)]
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
        self.assertIn(r"/x\x1b[2J\u009b2J\nkubelet      ok.conf names EnvironmentFile=/y", done.stdout)
        self.assertRegex(done.stdout, r"\A[ -~\n]+\Z")

    def test_what_cannot_be_read_is_not_absent(self) -> None:
        imagetree.al2023(self.root)
        (self.root / "etc/fstab").mkdir()
        self.assertEqual([e["outcome"] for e in self.lines(3)["swap"]], ["failed"])

    def test_documents_that_a_bootstrap_would_refuse(self) -> None:
        """Not those to which user data add the rest, and no file that a link of the image names outside of it."""
        config = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {%s}\n"
        outside = Path(self.enterContext(TemporaryDirectory())) / "outside.yaml"
        outside.write_text("x: y\n")
        imagetree.al2023(self.root)
        for path, text, message in (
            ("etc/nodeclaimd/conf.d/10.yaml", config % "drain: {mode: off}, cluster: {name: a}", None),
            ("etc/nodeclaimd/conf.d/10.yaml", PAUSE + "#" * 70000 + "\n", None),
            ("etc/nodeclaimd/conf.d/10.txt", "x: y\n", None),
            ("etc/nodeclaimd/conf.d/.10.yaml", "x: y\n", None),
            ("etc/nodeclaimd/conf.d/10.yaml", outside, "/etc/nodeclaimd/conf.d/10.yaml: is a link to what is not in the image"),
            ("etc/nodeclaimd/conf.d/10.yaml", config % "drain: {mode: offf}", "/etc/nodeclaimd/conf.d/10.yaml:3:22: spec.drain.mode: "),
            ("etc/nodeclaimd/conf.d/10.json", "x: y\n", "/etc/nodeclaimd/conf.d/10.json:1:1: "),
            ("etc/eks/nodeadm.d/.a.yaml", "\x01 garbage", "/etc/eks/nodeadm.d/.a.yaml"),
        ):
            with self.subTest(path, text=text):
                file = self.root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(text, Path):
                    file.symlink_to(text)
                else:
                    file.write_text(text)
                (entry,) = self.lines(3)["documents"]
                self.assertEqual(entry["outcome"], "failed" if message else "ok", entry)
                self.assertIn(message or "", entry["detail"])
                file.unlink()
        for path, check in (("etc/nodeclaimd/conf.d/10.yaml", "documents"), ("etc/fstab", "swap")):
            (self.root / path).write_text("a\0")
            self.assertEqual(self.lines(3)[check][0]["detail"], f"/{path}: control characters are not allowed")

    def test_a_field_that_no_node_reads(self) -> None:
        """The agent of the image is the one that ignores it; a newer kubelet than it knows may know what the agent does not."""
        imagetree.al2023(self.root)
        kubelet = "node.eks.aws/v1alpha1\nkind: NodeConfig", "kubelet: {config: {maxPod: 1}}"
        near = 'spec.kubelet.config.maxPod: unknown field, did you mean "maxPods"?'
        for kind, text, version, outcome, message in (
            ("nodeclaimd.io/v1alpha1\nkind: AgentConfig", "drain: {mod: observe}", "v1.34.1", "failed", 'spec.drain.mod: unknown field, did you mean "mode"?'),
            (*kubelet, "v1.34.1", "failed", near),
            (*kubelet, "v1.38.0", "warning", near + "; passed to kubelet, which may not know it"),
        ):
            imagetree.write(self.root, "/etc/eks/kubelet-version.txt", version)
            imagetree.write(self.root, "/etc/nodeclaimd/conf.d/10.yaml", f"apiVersion: {kind}\nspec: {{{text}}}\n")
            (entry,) = self.lines(3)["documents"]
            self.assertEqual(entry["outcome"], outcome, entry)
            self.assertIn(message, entry["detail"])
            self.assertEqual(entry["remedy"] == "correct the document: no node reads this field", outcome == "failed", entry)

    def test_rules_that_no_user_data_can_mend(self) -> None:
        """Each error by itself, as `check` names it, with the tables of the kubelet of the image."""
        imagetree.al2023(self.root)
        kubelet = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {%s}}\n"
        agent = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {%s}\n"
        for version, documents, expected in (
            ("v1.34.1", (agent % "drain: {margin: 20m}", kubelet % "flags: [--nope=1], config: {featureGates: {Nope: true}}"), [
                ("failed", "0.yaml:3:24: spec.drain.margin: must be at most 10m"),
                ("failed", "1.yaml:3:26: spec.kubelet.flags: --nope: unknown flag"),
                ("failed", "1.yaml:3:67: spec.kubelet.config.featureGates.Nope: unknown feature gate"),
            ]),
            ("v1.30.2", (kubelet % "config: {featureGates: {AppArmor: true}}",), [("ok", "")]),
            ("v1.34.1", (kubelet % "config: {featureGates: {AppArmor: true}}",), [("failed", "featureGates.AppArmor: removed in Kubernetes 1.33")]),
            ("", (kubelet % "config: {maxPods: 20}",), [("ok", ""), ("warning", "kubelet's version is not known")]),
            ("v1.34.1", (agent % "cluster: {auth: {mode: bootstrap-token}}",), [("warning", "is missing"), ("warning", "the rest was not checked")]),
        ):
            with self.subTest(version, documents=documents):
                shutil.rmtree(self.root / "etc/nodeclaimd/conf.d", ignore_errors=True)
                imagetree.write(self.root, "/etc/eks/kubelet-version.txt", version)
                for i, text in enumerate(documents):
                    imagetree.write(self.root, f"/etc/nodeclaimd/conf.d/{i}.yaml", text)
                found = self.lines(3)["documents"]
                self.assertEqual([e["outcome"] for e in found], [outcome for outcome, _ in expected], found)
                for entry, (_, message) in zip(found, expected):
                    self.assertIn(message, entry["detail"])

    def test_the_containerd_of_the_image(self) -> None:
        """What the image's own refuses fails, and no sentence is of another one; where none is known, the sentences say that it is assumed."""
        imagetree.al2023(self.root)
        text = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {containerd: {config: 'version = %s'}}\n"
        for said, version, outcomes, message in (
            ("1.6.20~ds1", 3, ["failed"], "is of version 3, and containerd 1.6.20 takes version 2"),
            ("1.6.20~ds1", 2, ["ok"], "accepted"),
            ("v2.1.4", 3, ["ok"], "accepted"),
            ("", 3, ["warning", "warning"], "tried as the newest reads them: containerd's version is not known"),
            ("", 3, ["warning", "warning"], "containerd 1.7.0: is of version 3, and containerd 1.7.0 takes version 2"),
            ("", 2, ["ok", "warning"], "tried as the newest reads them: containerd's version is not known"),
        ):
            with self.subTest(said, version=version):
                imagetree.write(self.root, "/etc/eks/containerd-version.txt", f"containerd github.com/containerd/containerd {said} x\n")
                imagetree.write(self.root, "/etc/nodeclaimd/conf.d/10.yaml", text % version)
                found = self.lines(3)["documents"]
                self.assertEqual([e["outcome"] for e in found], outcomes, found)
                self.assertIn(message, str(found))

    def test_no_image(self) -> None:
        done = subprocess.run([str(agent_path()), "preflight", "--image", str(self.root / "none")], text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertIn("none: No such file or directory", done.stderr)


class Recipes(unittest.TestCase):
    """What the Packer template and the Image Builder component hold, as far as it can be checked without either."""

    OPTIONS = set(re.findall(r"--[a-z-]+", subprocess.run([str(PROVISION), "--help"], text=True, capture_output=True, check=True).stdout))

    def provision_of(self, commands: "list[str]") -> None:
        """One of them runs the script, with options that it has."""
        (command,) = [c for c in commands if "/provision " in c]
        self.assertLessEqual(set(re.findall(r"--[a-z-]+", command)), self.OPTIONS)
        self.assertIn("--install", command)

    def test_component(self) -> None:
        """The document's schema: phases, steps, the inputs of each action; parameters are declared and used."""
        text = (TOP / "image/image-builder/nodeclaimd.yaml").read_text()
        document = yamlread.load(text)
        self.assertEqual(set(document), {"name", "description", "schemaVersion", "parameters", "phases"})
        self.assertEqual(float(document["schemaVersion"]), 1.0)
        names = [name for parameter in document["parameters"] for name in parameter]
        for parameter in document["parameters"]:
            for value in parameter.values():
                self.assertLessEqual(set(value), {"type", "default", "description", "allowedValues"})
                self.assertEqual(value["type"], "string")
        self.assertEqual(set(re.findall(r"{{ *([A-Za-z0-9.]+) *}}", text)), set(names))
        self.assertEqual([p["name"] for p in document["phases"]], ["build", "validate"])
        steps = [s for p in document["phases"] for s in p["steps"]]
        self.assertEqual(len({s["name"] for s in steps}), len(steps))
        for step in steps:
            self.assertLessEqual(set(step), {"name", "action", "timeoutSeconds", "onFailure", "maxAttempts", "inputs"})
            if step["action"] == "S3Download":
                for download in step["inputs"]:
                    self.assertEqual(set(download), {"source", "destination"})
            else:
                self.assertEqual(step["action"], "ExecuteBash")
                self.assertEqual(set(step["inputs"]), {"commands"})
                self.assertTrue(all(isinstance(c, str) for c in step["inputs"]["commands"]), "a command with a colon is a map")
        self.provision_of(steps[1]["inputs"]["commands"])
        self.assertIn("preflight --image /", steps[2]["inputs"]["commands"][0])

    def test_one_package_is_copied(self) -> None:
        """Where `./dev package --arch all` has made two."""
        for page in ("README.md", "docs/install.md", "image/README.md"):
            self.assertNotRegex((TOP / page).read_text(), r"nodeclaimd_\*\.deb", page)

    def test_component_unpacks_the_archive_that_is_named(self) -> None:
        """Whoever may write to the bucket does not make the nodes' image."""
        folder = Path(self.enterContext(TemporaryDirectory()))
        imagetree.write(folder, "/bundle/provision", f"#!/bin/sh\ntouch {folder}/provisioned\n", 0o755)
        document = yamlread.load((TOP / "image/image-builder/nodeclaimd.yaml").read_text())
        commands = "\n".join(document["phases"][0]["steps"][1]["inputs"]["commands"]).replace("/var/tmp/nodeclaimd-image", f"{folder}/work")
        for other in (True, False):
            (folder / "work").mkdir()
            archive = folder / "work/bundle.tar.gz"
            subprocess.run(["tar", "-czf", archive, "-C", folder / "bundle", "."], check=True)
            sha256 = hashlib.sha256(archive.read_bytes() + b"x" * other).hexdigest()
            done = subprocess.run(["bash", "-c", commands.replace("{{ BundleSha256 }}", sha256).replace("{{ Options }}", "")], check=False, capture_output=True)
            self.assertEqual((done.returncode == 0, (folder / "provisioned").exists()), (not other, not other), done.stderr)
            shutil.rmtree(folder / "work", ignore_errors=True)

    def test_variables_of_other_images(self) -> None:
        """Files for `packer build -var-file`: variables that the template has, an instance of the architecture that the name says."""
        declared = re.findall(r'(?m)^variable "([a-z_]+)" {$', (TOP / "image/packer/node.pkr.hcl").read_text())
        files = sorted((TOP / "image/packer").glob("*.pkrvars.hcl"))
        self.assertEqual({f.name.split(".")[0] for f in files}, {"eks-arm64", "ubuntu-eks", "ubuntu-eks-arm64"})
        for file in files:
            have = dict(re.findall(r'(?m)^(\w+) *= "([^"]+)"$', file.read_text()))
            is_ubuntu = "ubuntu" in file.name
            self.assertEqual(set(have), {"instance_type", "ssh_username", "name"} | ({"root_device_name"} if is_ubuntu else set()), file.name)
            self.assertLessEqual(set(have), set(declared))
            self.assertEqual(bool(re.match(r"[a-z]+\d+g[a-z]*\.", have["instance_type"])), "arm64" in file.name)
            self.assertEqual(have["ssh_username"] == "ubuntu", is_ubuntu)
            self.assertEqual(have.get("root_device_name"), "/dev/sda1" if is_ubuntu else None)
            parameter = re.findall(r"--name (\S+)", file.read_text())[0]
            self.assertEqual("/arm64/" in parameter, "arm64" in file.name)
            self.assertEqual("/canonical/ubuntu/eks/" in parameter, is_ubuntu)

    def test_regions_accounts_and_the_root_volume(self) -> None:
        """By variables, which change nothing where they are not set: the build's own volume is left alone."""
        text = (TOP / "image/packer/node.pkr.hcl").read_text()
        defaults = dict(re.findall(r'(?m)^variable "([a-z_]+)" {\n(?:  .*\n)*?  default +=  *(.*)$', text))
        source = text[text.index("\nsource ") :]
        for name, default in (("ami_regions", "[]"), ("region_kms_key_ids", "{}"), ("ami_users", "[]"), ("ami_org_arns", "[]"), ("snapshot_users", "[]"),
                              ("security_group_id", "null"), ("kms_key_id", "null")):
            self.assertEqual(defaults[name], default, name)
            self.assertRegex(source, rf"(?m)^  {name} += var\.{name}$")
        self.assertRegex(source, r"(?m)^  encrypt_boot += var\.kms_key_id == null && length\(var\.region_kms_key_ids\) == 0 \? null : true$")
        for name in ("size", "type"):
            self.assertEqual(defaults[f"root_volume_{name}"], "null")
            self.assertRegex(source, rf"(?m)^      volume_{name} += var\.root_volume_{name}$")
        self.assertIn("    for_each = var.root_volume_size == null && var.root_volume_type == null ? [] : [var.root_device_name]\n", source)
        self.assertIn("      delete_on_termination = true\n", source)
        for name in ("run_tags", "run_volume_tags"):
            self.assertIn(f'  {name} = merge(var.extra_tags, {{\n    Name = "packer-${{var.name}}"\n  }})\n', source, "what a build that failed leaves is found")
        self.assertEqual((defaults["extra_tags"], defaults["snapshot_tags"]), ("{}", "{}"))
        self.assertRegex(source, r"(?m)^  snapshot_tags += merge\(var\.extra_tags, var\.snapshot_tags\)$")
        self.assertEqual(len(re.findall(r"(?m)^  (\w*tags) += merge\(var\.extra_tags, ", source)), 4, "an organization may demand them of each")
        self.assertIn('  post-processor "manifest" {\n', source)

    def test_tag_that_is_selected(self) -> None:
        """The template gives every image one tag, whatever its name; the pages select by it and name it for Image Builder."""
        text = (TOP / "image/packer/node.pkr.hcl").read_text()
        ((key, value),) = re.findall(r'(?m)^    "(nodeclaimd[.]io/\w+)" += "(\w+)"', text.split("\n  tags = merge(var.extra_tags, {")[1])
        for page in ("README.md", "docs/install.md"):
            selected = re.findall(r"(?s)amiSelectorTerms:\n *- tags: {(.*?)}", (TOP / page).read_text())
            self.assertEqual(selected, [f"{key}: {value}"], page)
        self.assertIn(f"`{key}: {value}`", (TOP / "image/README.md").read_text())
        self.assertIn(f"{key}={value}", (TOP / "image/image-builder/nodeclaimd.yaml").read_text())

    def test_template(self) -> None:
        """Each variable is declared and used; blocks close; the script seals before the snapshot."""
        text = re.sub(r"(?m)^ *#.*$", "", (TOP / "image/packer/node.pkr.hcl").read_text())
        declared = re.findall(r'(?m)^variable "([a-z_]+)" {$', text)
        self.assertEqual(set(re.findall(r"\bvar\.([a-z_]+)", text)), set(declared))
        bare = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
        for one, other in ("{}", "[]", "()"):
            self.assertEqual(bare.count(one), bare.count(other))
        commands = re.findall(r'"([^"]*)",\n', text.split('provisioner "shell"')[1])
        self.provision_of(commands)
        self.assertIn("--seal", next(c for c in commands if "/provision " in c))
        of_source = re.findall(r"(?m)^  (\w+) +=", text[text.index("\nsource ") :])
        self.assertEqual(len(set(of_source)), len(of_source), "HCL takes no attribute twice")
        self.assertIn("ssh_clear_authorized_keys", of_source)

    def test_what_an_image_was_made_of(self) -> None:
        """The plugin that makes it is one version of it; the AMI says what of ours is in it, where a page makes one."""
        text = (TOP / "image/packer/node.pkr.hcl").read_text()
        self.assertRegex(text, r'(?m)^      version = "\d+\.\d+\.\d+"$')
        self.assertRegex(text.split("\n  tags = merge(var.extra_tags, {")[1], r"(?m)^    nodeclaimd_version += var\.nodeclaimd_version$")
        for page in ("README.md", "docs/install.md"):
            command, *of_debian = re.findall(r"(?m)^ *packer build (?:.*\\\n)*.*$", (TOP / page).read_text())
            for one in (command, *of_debian):
                self.assertIn(' -var "nodeclaimd_version=$(release/version)" ', one, page)
        script = (TOP / "release/amazon-linux").read_text()
        self.assertLess(script.index("\nrm -rf build/al2023\n"), script.index("\ndnf "), "no package of another commit is left where a build fails")
        self.assertEqual(set(re.findall(r"-var \"?(\w+)=", of_debian[0])) - set(re.findall(r'(?m)^variable "(\w+)"', text)), set())
        options = re.findall(r"(--[a-z-]+) [$]in/(\S+?)[\" ]", of_debian[0])
        self.assertEqual([o for o, _ in options], ["--package", "--kubelet", "--pause-image", "--ecr-credential-provider"])
        bundled = " ".join(re.findall(r"(?m)^cp .* bundle/.*", (TOP / page).read_text()))
        self.assertEqual([f for _, f in options if f not in bundled], [], "the archive has each file")

    def test_containers_read_the_folder_under_selinux(self) -> None:
        for page in ("README.md", "docs/install.md"):
            for command in re.findall(r"(?:podman|docker) run .*-v.*", (TOP / page).read_text()):
                self.assertIn(' -v "$PWD:/src:Z" ', command, page)

    def test_the_first_example_has_what_debian_lacks(self) -> None:
        """And a command makes each of them, under that name."""
        text = (TOP / "image/README.md").read_text()
        first = re.findall(r"(?m)^image/provision .*", text)[0]
        self.assertEqual(re.findall(r"--([a-z-]+) (\S+)", first), [
            ("package", "nodeclaimd.deb"), ("kubelet", "kubelet"), ("pause-image", "pause.tar"), ("ecr-credential-provider", "ecr-credential-provider")])
        for pattern in (r"curl .*/kubelet\{", r"ctr images export pause.tar ", r'GOBIN="\$PWD" .*go install \S+/ecr-credential-provider@v\d+[.]\d+[.]\d+$'):
            self.assertRegex(text, "(?m)^" + pattern)

    def test_the_kubelet_that_is_fetched_is_checked(self) -> None:
        commands = re.findall(r"(?m)^curl .*\n.*", (TOP / "image/README.md").read_text())
        fetched = Path(self.enterContext(TemporaryDirectory()))
        (fetched / "kubelet").write_bytes(b"kubelet")
        for content, code in ((b"kubelet", 0), (b"other", 1)):
            (fetched / "kubelet.sha256").write_text(hashlib.sha256(content).hexdigest())
            self.assertRegex(commands[0], r'^curl -fLO "https://[^ ]+/kubelet{,[.]sha256}"\n')
            done = subprocess.run(["sh", "-c", commands[0].split("\n")[1]], cwd=fetched, capture_output=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    unittest.main()
