"""A handful of realistic EC2 instances, as the files that IMDS would serve.

Knows: what a value looks like in each region and partition.
Gives: `PROFILES`, and `tree()`: path below the root -> body.
Must not: serve anything.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ACCOUNT = "123456789012"
ROLE = "nodeclaimd-node"


@dataclass(frozen=True)
class Instance:
    id: str
    type: str
    region: str
    az: str
    az_id: str
    ip: str
    mac: str
    life_cycle: str = "on-demand"
    arch: str = "x86_64"
    partition: str = "aws"
    domain: str = "amazonaws.com"
    ipv6: tuple[str, ...] = ()
    dns_domain: str = ""

    @property
    def private_dns(self) -> str:
        suffix = self.dns_domain or (
            "ec2.internal" if self.region == "us-east-1" else f"{self.region}.compute.internal"
        )
        return f"ip-{self.ip.replace('.', '-')}.{suffix}"

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.az}/{self.id}"

    @property
    def access_key(self) -> str:
        return "ASIA" + self.id[2:].upper()[:16].ljust(16, "X")

    @property
    def secret_key(self) -> str:
        return f"fakeSecret/{self.id}+{'s' * 16}"

    @property
    def session_token(self) -> str:
        return "IQoJb3JpZ2luX2VjEXAMPLE//" + (self.id * 20)[:360] + "+/abc=="


PROFILES: dict[str, Instance] = {
    "m5.large": Instance(
        "i-0123456789abcdef0", "m5.large", "us-west-2", "us-west-2a", "usw2-az1", "192.168.14.27", "0a:1b:2c:3d:4e:5f"
    ),
    "c5a.large-spot": Instance(
        "i-0c5a00000000000a1",
        "c5a.large",
        "ap-northeast-1",
        "ap-northeast-1c",
        "apne1-az1",
        "10.0.97.203",
        "06:aa:bb:cc:dd:01",
        life_cycle="spot",
    ),
    "m6g.xlarge-arm": Instance(
        "i-0a6a0000000000b22",
        "m6g.xlarge",
        "eu-central-1",
        "eu-central-1b",
        "euc1-az3",
        "172.31.5.8",
        "02:00:00:00:00:0a",
        arch="arm64",
    ),
    "m5.xlarge-ipv6": Instance(
        "i-06666666666666666",
        "m5.xlarge",
        "us-west-2",
        "us-west-2b",
        "usw2-az2",
        "192.168.40.4",
        "0a:66:66:66:66:66",
        ipv6=("2001:db8:1234:1a00::4c1", "2001:db8:1234:1a00::4c2"),
    ),
    "m5.large-china": Instance(
        "i-0cccccccccccccccc",
        "m5.large",
        "cn-north-1",
        "cn-north-1a",
        "cnn1-az1",
        "10.8.0.12",
        "0a:cc:cc:cc:cc:cc",
        partition="aws-cn",
        domain="amazonaws.com.cn",
        dns_domain="cn-north-1.compute.internal",
    ),
    "c5.xlarge-govcloud": Instance(
        "i-09090909090909090",
        "c5.xlarge",
        "us-gov-west-1",
        "us-gov-west-1a",
        "usgw1-az1",
        "10.20.30.40",
        "0a:90:90:90:90:90",
        partition="aws-us-gov",
    ),
    "m5.large-custom-dns": Instance(
        "i-0d0d0d0d0d0d0d0d0",
        "m5.large",
        "us-east-1",
        "us-east-1f",
        "use1-az5",
        "10.1.2.3",
        "0a:0d:0d:0d:0d:0d",
        dns_domain="corp.example.com",
    ),
    "unknown-type": Instance(
        "i-0f0f0f0f0f0f0f0f0", "zz9.plural", "us-west-2", "us-west-2c", "usw2-az3", "192.168.77.7", "0a:0f:0f:0f:0f:0f"
    ),
}


def rfc3339(epoch: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def identity_document(inst: Instance) -> dict[str, object]:
    return {
        "accountId": ACCOUNT,
        "architecture": inst.arch,
        "availabilityZone": inst.az,
        "billingProducts": None,
        "devpayProductCodes": None,
        "marketplaceProductCodes": None,
        "imageId": "ami-0abcdef1234567890",
        "instanceId": inst.id,
        "instanceType": inst.type,
        "kernelId": None,
        "pendingTime": "2026-11-20T08:00:00Z",
        "privateIp": inst.ip,
        "ramdiskId": None,
        "region": inst.region,
        "version": "2017-09-30",
    }


def credentials(inst: Instance, now: float) -> dict[str, str]:
    return {
        "Code": "Success",
        "LastUpdated": rfc3339(now - 600),
        "Type": "AWS-HMAC",
        "AccessKeyId": inst.access_key,
        "SecretAccessKey": inst.secret_key,
        "Token": inst.session_token,
        "Expiration": rfc3339(now + 6 * 3600),
    }


def tree(inst: Instance, user_data: Optional[bytes] = None, now: Optional[float] = None) -> dict[str, bytes]:
    """Every path below the root that this instance's IMDS knows, without a leading slash."""
    now = time.time() if now is None else now
    nic = f"latest/meta-data/network/interfaces/macs/{inst.mac}"
    text: dict[str, str] = {
        "latest/dynamic/instance-identity/document": json.dumps(identity_document(inst), indent=2),
        "latest/meta-data/ami-id": "ami-0abcdef1234567890",
        "latest/meta-data/instance-id": inst.id,
        "latest/meta-data/instance-type": inst.type,
        "latest/meta-data/instance-life-cycle": inst.life_cycle,
        "latest/meta-data/local-hostname": inst.private_dns,
        "latest/meta-data/events/maintenance/history": "[]",
        "latest/meta-data/events/maintenance/scheduled": "[]",
        "latest/meta-data/hostname": inst.private_dns,
        "latest/meta-data/local-ipv4": inst.ip,
        "latest/meta-data/mac": inst.mac,
        "latest/meta-data/placement/availability-zone": inst.az,
        "latest/meta-data/placement/availability-zone-id": inst.az_id,
        "latest/meta-data/placement/region": inst.region,
        "latest/meta-data/services/domain": inst.domain,
        "latest/meta-data/services/partition": inst.partition,
        "latest/meta-data/iam/info": json.dumps(
            {
                "Code": "Success",
                "LastUpdated": rfc3339(now - 600),
                "InstanceProfileArn": f"arn:{inst.partition}:iam::{ACCOUNT}:instance-profile/{ROLE}",
                "InstanceProfileId": "AIPAEXAMPLE",
            }
        ),
        f"latest/meta-data/iam/security-credentials/{ROLE}": json.dumps(credentials(inst, now), indent=2),
        f"{nic}/device-number": "0",
        f"{nic}/local-ipv4s": inst.ip,
        f"{nic}/vpc-ipv4-cidr-blocks": inst.ip.split(".")[0] + ".0.0.0/8",
    }
    if inst.ipv6:
        text[f"{nic}/ipv6s"] = "\n".join(inst.ipv6)
        text["latest/meta-data/ipv6"] = inst.ipv6[0]
    files = {path: body.encode() for path, body in text.items()}
    if user_data is not None:
        files["latest/user-data"] = user_data
    return files


def load_tree(folder: Path) -> dict[str, bytes]:
    """The layout of a facts folder: `latest/meta-data/instance-type` holds the body."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def save_tree(files: dict[str, bytes], folder: Path) -> None:
    for path, body in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
