"""Certificates for tests, made by the openssl program.

Knows: what Kubernetes wants in a subject (O = groups, CN = user).
Gives: a CA in a folder, certificates signed by it, TLS contexts.
Must not: be used outside tests; keys lie in plain files.
"""

from __future__ import annotations

import base64
import ssl
import subprocess
from pathlib import Path


def openssl(*args: str, data: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *args], input=data, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {args[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


class Authority:
    """A CA whose files lie in `folder`; one that is there already is used again."""

    def __init__(self, folder: Path, name: str = "fake-cluster-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.cert = folder / "ca.crt"
        self.key = folder / "ca.key"
        if not self.cert.exists():
            openssl(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "30",
                "-subj",
                f"/CN={name}",
                "-addext",
                "basicConstraints=critical,CA:TRUE",
                "-addext",
                "keyUsage=critical,keyCertSign,cRLSign",
                "-keyout",
                str(self.key),
                "-out",
                str(self.cert),
            )

    @property
    def pem(self) -> bytes:
        return self.cert.read_bytes()

    @property
    def base64(self) -> str:
        return base64.b64encode(self.pem).decode()

    def sign(self, csr: bytes, extensions: str, days: int = 7) -> bytes:
        ext = self.folder / "ext.cnf"
        ext.write_text(extensions)
        return openssl(
            "x509",
            "-req",
            "-CA",
            str(self.cert),
            "-CAkey",
            str(self.key),
            "-CAcreateserial",
            "-days",
            str(days),
            "-extfile",
            str(ext),
            data=csr,
        )

    def issue(self, name: str, subject: str, extensions: str) -> tuple[Path, Path]:
        """Paths of the certificate and its key."""
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if not cert.exists():
            csr = openssl(
                "req",
                "-new",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-subj",
                subject,
                "-keyout",
                str(key),
            )
            cert.write_bytes(self.sign(csr, extensions))
        return cert, key

    def server(self, name: str = "server") -> tuple[Path, Path]:
        return self.issue(
            name,
            "/CN=fake-apiserver",
            "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost,DNS:kubernetes.default\n"
            "extendedKeyUsage=serverAuth\nkeyUsage=critical,digitalSignature\n",
        )

    def client(self, name: str, user: str, *groups: str) -> tuple[Path, Path]:
        subject = "".join(f"/O={g}" for g in groups) + f"/CN={user}"
        return self.issue(name, subject, "extendedKeyUsage=clientAuth\nkeyUsage=critical,digitalSignature\n")

    def node(self, node: str) -> tuple[Path, Path]:
        return self.client(f"node-{node}", f"system:node:{node}", "system:nodes")

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.server())
        context.load_verify_locations(self.cert)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.cert))
