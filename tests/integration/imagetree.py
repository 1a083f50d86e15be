"""Root file systems of node images, as far as files go: the EKS AL2023 AMI, Ubuntu's EKS image, a bare Debian 12 and a bare Amazon Linux 2023,
written from what is known of them.

Programs in them are scripts that know their version. A stand-in for chroot runs them, and the host's tools on the files of the tree,
without privileges.
"""

from __future__ import annotations

from pathlib import Path

VERSION = {"kubelet": "Kubernetes v1.34.1", "containerd": "containerd github.com/containerd/containerd/v2 2.1.4 0123abc"}
COMMANDS = ("init", "udevadm", "runc", "iptables", "conntrack", "ip", "mdadm", "mkfs.xfs")

# chroot ROOT COMMAND...: the tree's own program, else the host's; absolute paths among its arguments are below the tree.
CHROOT = """#!/bin/bash
root=$1 program=$2
shift 2
for a in "$@"; do
    case $a in
        /*) set -- "$@" "$root$a" ;;
        *) set -- "$@" "$a" ;;
    esac
    shift
done
for p in "$root$program" "$root/usr/sbin/$program" "$root/usr/bin/$program"; do
    if [ -f "$p" ]; then exec "$p" "$@"; fi
done
exec "$program" "$@"
"""


def write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def enable(root: Path, unit: str, target: str = "multi-user.target") -> None:
    wants = root / f"etc/systemd/system/{target}.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / unit).symlink_to(f"/etc/systemd/system/{unit}")


def programs(root: Path) -> None:
    """kubelet and containerd say their versions; of the others it counts that they are there. ldd finds all libraries."""
    for name, text in VERSION.items():
        write(root, f"/usr/bin/{name}", f"#!/bin/sh\n[ $1 != --help ] || echo --node-labels\necho '{text}'\n", 0o755)
    for name in COMMANDS:
        write(root, f"/usr/sbin/{name}", "#!/bin/sh\nexit 1\n", 0o755)
    write(root, "/usr/lib/systemd/system/dbus.socket", "[Socket]\nListenStream=/run/dbus/system_bus_socket\n")
    write(root, "/usr/bin/ldd", "#!/bin/sh\necho 'libc.so.6 => /usr/lib/libc.so.6'\n", 0o755)


def merged_usr(root: Path) -> None:
    for name in ("bin", "sbin", "lib"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")


def debian(root: Path) -> None:
    merged_usr(root)
    programs(root)
    write(root, "/etc/os-release", 'ID=debian\nVERSION_CODENAME=bookworm\n')
    write(root, "/usr/lib/systemd/system/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n[Install]\nWantedBy=multi-user.target\n")
    write(root, "/usr/lib/sysctl.d/50-default.conf", "-net.ipv4.conf.all.rp_filter = 2\nkernel.panic = 0\n")
    enable(root, "containerd.service")


def amazon(root: Path) -> None:
    """A bare Amazon Linux 2023."""
    debian(root)
    write(root, "/etc/os-release", 'NAME="Amazon Linux"\nID="amzn"\nID_LIKE="fedora"\n')
    write(root, "/usr/lib/udev/rules.d/99-vpc-policy-routes.rules", 'SUBSYSTEM=="net", ACTION=="add"\n')
    write(root, "/etc/cloud/cloud.cfg", "repo_upgrade: security\n")


def ubuntu_eks(root: Path) -> None:
    """Ubuntu's EKS image as it runs: kubelet and the credential provider are in snaps, and no kubelet is in PATH."""
    debian(root)
    write(root, "/etc/os-release", 'ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n')
    (root / "usr/bin/kubelet").unlink()
    for snap, program in (("kubelet-eks", "kubelet"), ("ecr-credential-provider", "ecr-credential-provider")):
        write(root, f"/snap/{snap}/101/bin/{program}", f"#!/bin/sh\n[ $1 != --help ] || echo --node-labels\necho '{VERSION['kubelet']}'\n", 0o755)
        (root / f"snap/{snap}/current").symlink_to("101")
    write(root, "/etc/systemd/system/snap.kubelet-eks.daemon.service", "[Service]\nExecStart=/usr/bin/snap run kubelet-eks.daemon\n[Install]\nWantedBy=multi-user.target\n")
    enable(root, "snap.kubelet-eks.daemon.service")


ONESHOT = "[Unit]\nDescription={0}\n[Service]\nType=oneshot\nExecStart=/usr/bin/{1}\n[Install]\nWantedBy=multi-user.target\n"


def al2023(root: Path) -> None:
    """The AMI as Amazon ships it: nodeadm is enabled, kubelet's EnvironmentFile is not there."""
    merged_usr(root)
    programs(root)
    write(root, "/etc/os-release", 'NAME="Amazon Linux"\nID="amzn"\nID_LIKE="fedora"\n')
    units = "/etc/systemd/system"
    write(root, f"{units}/kubelet.service", """[Unit]
After=containerd.service
Wants=containerd.service
[Service]
Slice=runtime.slice
EnvironmentFile=/etc/eks/kubelet/environment
ExecStartPre=/sbin/iptables -P FORWARD ACCEPT -w 5
ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS
Restart=on-failure
RestartForceExitStatus=SIGPIPE
RestartSec=5
KillMode=process
CPUAccounting=true
MemoryAccounting=true
[Install]
WantedBy=multi-user.target
""")
    write(root, "/usr/lib/systemd/system/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n[Install]\nWantedBy=multi-user.target\n")
    write(root, f"{units}/containerd.service.d/00-runtime-slice.conf", "[Service]\nSlice=runtime.slice\n")
    write(root, f"{units}/runtime.slice", "[Unit]\nBefore=slices.target\n")
    for unit, command in {
        "nodeadm-boot-hook": "nodeadm-internal boot-hook",
        "nodeadm-config": "nodeadm init --skip run",
        "nodeadm-run": "nodeadm init --skip config",
    }.items():
        write(root, f"{units}/{unit}.service", ONESHOT.format(unit, command))
        enable(root, f"{unit}.service")
    write(root, f"{units}/udev-net-manager@.service", "[Service]\nType=oneshot\nExecStart=/usr/bin/nodeadm-internal udev-net-manager %i\n")
    write(root, "/etc/udev/rules.d/90-eks.rules", 'SUBSYSTEM=="net", ACTION=="add", ENV{ID_NET_DRIVER}=="ena"\n')
    for name in ("nodeadm", "nodeadm-internal", "setup-local-disks"):
        write(root, f"/usr/bin/{name}", "#!/bin/sh\nexit 1\n", 0o755)
    write(root, "/etc/sysctl.conf", "fs.inotify.max_user_watches=524288\nfs.inotify.max_user_instances=8192\nvm.max_map_count=524288\nkernel.pid_max=4194304\n")
    (root / "etc/sysctl.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    write(root, "/etc/sysctl.d/67-eks-reserved-ports.conf", "net.ipv4.ip_local_reserved_ports = 2703,9808,9809,10249,10250,10256,61678,61679\n")
    write(root, "/etc/sysctl.d/99-amazon.conf", "vm.overcommit_memory=1\nkernel.panic=10\nkernel.panic_on_oops=1\n")
    write(root, "/etc/sysctl.d/99-kubernetes-cri.conf", "net.bridge.bridge-nf-call-ip6tables = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.ipv4.ip_forward = 1\n")
    write(root, "/etc/modules-load.d/containerd.conf", "overlay\nbr_netfilter\n")
    write(root, "/etc/systemd/networkd.conf.d/80-release.conf", "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n")
    write(root, "/etc/systemd/network/99-default.link.d/99-no-policy.conf", "[Link]\nMACAddressPolicy=none\n")
    for name, text in VERSION.items():
        write(root, f"/etc/eks/{name}-version.txt", text + "\n")
    write(root, "/etc/eks/image-credential-provider/ecr-credential-provider", "#!/bin/sh\n", 0o755)
    write(root, "/etc/eks/release", 'BASE_AMI_ID="ami-1"\n')
    write(root, "/etc/eks/pause.tar", "")


def chroot(folder: Path) -> None:
    """A folder for PATH. Who runs it is root there."""
    write(folder, "chroot", CHROOT, 0o755)
    write(folder, "id", "#!/bin/sh\necho 0\n", 0o755)
