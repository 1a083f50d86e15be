#!/usr/bin/env python3
"""sbom.py ARTIFACT: an SPDX 2.3 document (JSON) of a release's tarball, chart, Debian package, RPM or image, on standard output.

What it says is read from the artifact: each file with its hashes; the libraries that its programs are linked to; the packages of an
image. The versions of these libraries are those of the machine that runs it: run it where the package was built. On the same machine the
same artifact gives the same document: its time is SOURCE_DATE_EPOCH, in seconds, which must be set.
"""
import datetime
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse

NAMESPACE = "https://nodeclaimd.invalid/spdx"  # a name, which nothing opens
ENTRIES = "var/lib/dpkg/status.d/"
OURS = "Organization: nodeclaimd"
LICENCE = "Apache-2.0"


def output(*command, data=None):
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def tar_files(data):
    """{path: content} of the regular files of a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {re.sub(r"^(\./)?", "", member.name): archive.extractfile(member).read() for member in archive if member.isreg()}


def image_files(path):
    """The files of all layers of an OCI archive: nothing of a lower layer is hidden, as there is only one."""
    blobs = tar_files(open(path, "rb").read())

    def blob(descriptor):
        return blobs["blobs/" + descriptor["digest"].replace(":", "/")]
    index = json.loads(blobs["index.json"])
    layers = json.loads(blob(index["manifests"][0]))["layers"]
    if len(layers) != 1:
        sys.exit(f"sbom.py: {path}: {len(layers)} layers, not 1")
    return tar_files(blob(layers[0]))


def read(path):
    """Files, version and architecture of an artifact."""
    name = os.path.basename(path)
    if name.endswith(".deb"):
        version, arch = output("dpkg-deb", "-W", "--showformat=${Version} ${Architecture}", path).decode().split()
        return tar_files(output("dpkg-deb", "--fsys-tarfile", path)), version, arch
    if name.endswith(".rpm"):
        version, arch = output("rpm", "-qp", "--qf", "%{VERSION}-%{RELEASE} %{ARCH}", path).decode().split()
        return tar_files(output("rpm2archive", "-", data=open(path, "rb").read())), version, arch
    if name.endswith(".oci.tar"):
        files = image_files(path)
        entry = fields(files[ENTRIES + "nodeclaim-controller"])
        return files, entry["Version"], entry["Architecture"]
    version = re.search(r"[-_]([0-9].*)\.t(?:ar\.|gz$)", name)
    if not version:
        sys.exit(f"sbom.py: {name}: wanted is NAME-VERSION.tar.xz, NAME-VERSION.tgz, or a .deb, .rpm or .oci.tar")
    return tar_files(open(path, "rb").read()), version.group(1), None


def fields(entry):
    return dict(line.split(": ", 1) for line in entry.decode().splitlines() if ": " in line and not line.startswith(" "))


def needed(content):
    """The sonames that an ELF file is linked to."""
    if not content.startswith(b"\x7fELF"):
        return []
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", file.name).decode())


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", lambda match: f"-{ord(match.group()):x}-", name)


def package(kind, name, version, supplier, licence="NOASSERTION", **more):
    return {"SPDXID": spdx_id(kind, name), "name": name, "versionInfo": version, "supplier": supplier, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def os_release(text):
    return {key: value.strip("\"'") for key, value in re.findall(r"^([A-Z_]+)=(.*)$", text, re.M)}


def purl(kind, system, name, version, **qualifiers):
    """What vulnerability scanners know a package by; `system` is of os_release."""
    def quote(text):
        return urllib.parse.quote(text, safe="~:")
    distro = {"distro": f"{system['ID']}-{system['VERSION_ID']}"}
    more = "&".join(f"{key}={quote(value)}" for key, value in sorted({**qualifiers, **distro}.items()) if value)
    return [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
             "referenceLocator": f"pkg:{kind}/{system['ID']}/{quote(name)}@{quote(version)}?{more}"}]


def library(soname, is_rpm):
    """A library that a package's programs load from the system they are installed on; its version is this machine's."""
    with open("/etc/os-release", encoding="utf-8") as file:
        system = os_release(file.read())
    if is_rpm:
        listed = output("rpm", "-q", "--whatprovides", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{ARCH} %{SOURCERPM}\n", soname + "()(64bit)")
        owner, version, arch, source = listed.decode().splitlines()[0].split()
        url = purl("rpm", system, owner, version, arch=arch, upstream=source)
    else:
        owner = output("dpkg-query", "-S", "*/" + soname).decode().split(":")[0]
        listed = output("dpkg-query", "-W", "-f=${Version} ${Architecture} ${source:Package}\n", owner)
        version, arch, source = listed.decode().splitlines()[0].split()
        url = purl("deb", system, owner, version, arch=arch, upstream=source)
    return package("Library", soname, version, f"Organization: {system['NAME']}", externalRefs=url,
                   comment=f"Version of the machine that made this document: {owner} {version}. The system provides its own.")


def contained(entry, system):
    """A package in an image: Debian's or, built from its source, libcurl-minimal; or that of the program, which no scanner knows."""
    found = fields(entry)
    source = found.get("Source", found["Package"]).split(" ")[0]
    url = purl("deb", system, found["Package"], found["Version"], arch=found["Architecture"], upstream=source)
    if found["Package"] in ("nodeclaim-controller", "libcurl-minimal"):
        licence = "NOASSERTION" if source == "curl" else LICENCE
        return package("Package", found["Package"], found["Version"], OURS, licence, externalRefs=url if source == "curl" else [])
    return package("Package", found["Package"], found["Version"], f"Organization: {system['NAME']}", externalRefs=url)


def file_entry(path, content):
    return {"SPDXID": spdx_id("File", path), "fileName": "./" + path, "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), content).hexdigest()} for name in ("SHA1", "SHA256")]}


def describe(path):
    files, version, arch = read(path)
    name = os.path.basename(path)
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
    listed = [file_entry(path, content) for path, content in sorted(files.items())]
    sums = "".join(sorted(entry["checksums"][0]["checksumValue"] for entry in listed))
    whole = package("Artifact", name, version, OURS, LICENCE, packageFileName=name, filesAnalyzed=True, licenseInfoFromFiles=["NOASSERTION"],
                    packageVerificationCode={"packageVerificationCodeValue": hashlib.sha1(sums.encode()).hexdigest()},
                    checksums=[{"algorithm": "SHA256", "checksumValue": digest}])
    if name.endswith(".oci.tar"):
        system = os_release(files["usr/lib/os-release"].decode())
        relation, parts = "CONTAINS", [contained(content, system) for path, content in sorted(files.items()) if path.startswith(ENTRIES)]
    else:
        sonames = {soname for content in files.values() for soname in needed(content)} if arch else set()
        relation, parts = "DYNAMIC_LINK", [library(soname, name.endswith(".rpm")) for soname in sorted(sonames)]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", whole)] + [(whole["SPDXID"], "CONTAINS", entry) for entry in listed]
    relations += [(whole["SPDXID"], relation, part) for part in parts]
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"{NAMESPACE}/{name}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: nodeclaimd-release/sbom.py"]},
        "packages": [whole] + parts, "files": listed,
        "relationships": [{"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target["SPDXID"]}
                          for source, kind, target in relations],
    }


if len(sys.argv) != 2:
    sys.exit(__doc__)
if not os.environ.get("SOURCE_DATE_EPOCH", "").isdecimal():
    sys.exit("sbom.py: SOURCE_DATE_EPOCH, the time of the document in seconds, is not set")
print(json.dumps(describe(sys.argv[1]), indent=1))
