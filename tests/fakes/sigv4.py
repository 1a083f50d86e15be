"""Signature Version 4, recomputed by the other side.

Knows: the canonical forms of a signed request, and the rules that a verifier of EKS tokens applies to a presigned URL.
Gives: `check_token` and `check_header`; both raise `Refused` with the reason.
Must not: share a line with the program under test.
"""

from __future__ import annotations

import base64
import calendar
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from typing import Mapping
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
TOKEN_PREFIX = "k8s-aws-v1."
MAX_TOKEN_BYTES = 4096
CLUSTER_HEADER = "x-k8s-aws-id"
VALID_SEC = 15 * 60
ALLOWED_QUERY = {
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
}
STS_HOST = re.compile(r"^sts(-fips)?(\.(?P<region>[a-z]{2}(-[a-z]+)+-\d))?\.amazonaws\.com(?P<cn>\.cn)?$")


class Refused(Exception):
    """Why the credential is not accepted."""


@dataclass(frozen=True)
class Key:
    access: str
    secret: str
    session: str


def encode(text: str) -> str:
    return quote(text, safe="-_.~")


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = ("AWS4" + secret).encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def signature(secret: str, scope: str, when: str, canonical: str) -> str:
    date, region, service, _ = scope.split("/")
    text = "\n".join(["AWS4-HMAC-SHA256", when, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    return hmac.new(signing_key(secret, date, region, service), text.encode(), hashlib.sha256).hexdigest()


def canonical_request(
    method: str, path: str, query: list[tuple[str, str]], headers: Mapping[str, str], signed: str, payload_hash: str
) -> str:
    pairs = sorted((encode(k), encode(v)) for k, v in query)
    head = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed.split(";"))
    return "\n".join([method, path or "/", "&".join(f"{k}={v}" for k, v in pairs), head, signed, payload_hash])


def parse_time(text: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y%m%dT%H%M%SZ")))
    except ValueError as exc:
        raise Refused(f"X-Amz-Date {text!r} is no ISO 8601 basic time") from exc


def _token_url(token: str) -> str:
    if not token.startswith(TOKEN_PREFIX):
        raise Refused(f"token is missing the prefix {TOKEN_PREFIX!r}")
    if len(token) > MAX_TOKEN_BYTES:
        raise Refused("token is too large")
    raw = token[len(TOKEN_PREFIX) :]
    if not re.fullmatch(r"[A-Za-z0-9_-]+", raw):
        raise Refused("token is not unpadded base64url")
    try:
        return base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)).decode("ascii")
    except ValueError as exc:
        raise Refused("token is not base64url of a URL") from exc


def check_token(token: str, cluster: str, region: str, keys: Mapping[str, Key], now: float) -> Key:
    """The key that signed this EKS token for this cluster, in this region."""
    url = urlsplit(_token_url(token))
    host = STS_HOST.match(url.netloc)
    if url.scheme != "https" or url.path not in ("/", "") or url.fragment:
        raise Refused(f"unexpected URL {url.scheme}://{url.netloc}{url.path}")
    if not host or host["region"] not in (None, region) or bool(host["cn"]) != region.startswith("cn-"):
        raise Refused(f"unexpected hostname {url.netloc!r} in pre-signed URL")
    if any("+" in part for part in url.query.split("&")):
        raise Refused("the query must encode a plus sign as %2B")
    pairs = parse_qsl(url.query, keep_blank_values=True, strict_parsing=True)
    query = {k.lower(): v for k, v in pairs}
    if len(query) != len(pairs):
        raise Refused("input token had a query parameter twice")
    extra = set(query) - ALLOWED_QUERY
    if extra:
        raise Refused(f"non-whitelisted query parameter {sorted(extra)[0]!r}")
    if query.get("action") != "GetCallerIdentity" or query.get("version") != "2011-06-15":
        raise Refused("unexpected action or version in pre-signed URL")
    signed = query.get("x-amz-signedheaders", "")
    if sorted(signed.split(";")) != ["host", CLUSTER_HEADER]:
        raise Refused(f"client did not sign the {CLUSTER_HEADER} header in the pre-signed URL (signed: {signed!r})")
    expires = query.get("x-amz-expires", "")
    if not expires.isdigit() or not 0 <= int(expires) <= 900:
        raise Refused(f"invalid X-Amz-Expires {expires!r}")
    when = query.get("x-amz-date", "")
    skew = now - parse_time(when)
    if skew > VALID_SEC or skew < -5 * 60:
        raise Refused(f"X-Amz-Date parameter is expired or in the future: {skew:+.0f} s")
    access, _, scope = query.get("x-amz-credential", "").partition("/")
    if scope != f"{when[:8]}/{region}/sts/aws4_request":
        raise Refused(f"credential scope {scope!r} does not fit the date and region {region!r}")
    key = keys.get(access)
    if key is None or query.get("x-amz-security-token", "") != key.session:
        raise Refused("STS does not know this access key or session token")
    canonical = canonical_request(
        "GET",
        url.path or "/",
        [(k, v) for k, v in pairs if k.lower() != "x-amz-signature"],
        {"host": url.netloc, CLUSTER_HEADER: cluster},
        signed,
        EMPTY_SHA256,
    )
    if not hmac.compare_digest(signature(key.secret, scope, when, canonical), query.get("x-amz-signature", "")):
        raise Refused("SignatureDoesNotMatch (wrong secret, or signed for another cluster)")
    return key


def check_header(
    method: str, target: str, headers: Mapping[str, str], body: bytes, service: str, keys: Mapping[str, Key], now: float
) -> Key:
    """The key of an ordinary signed AWS request; `headers` has lower-case names."""
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/,]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
        headers.get("authorization", ""),
    )
    if not match:
        raise Refused("MissingAuthenticationToken")
    access, scope, signed, given = match.groups()
    key = keys.get(access)
    if key is None or headers.get("x-amz-security-token", "") != key.session:
        raise Refused("AuthFailure: unknown access key or session token")
    when = headers.get("x-amz-date", "")
    if abs(now - parse_time(when)) > VALID_SEC:
        raise Refused("RequestExpired")
    parts = scope.split("/")
    if len(parts) != 4 or parts[2] != service or parts[0] != when[:8] or parts[3] != "aws4_request":
        raise Refused(f"credential scope {scope!r} does not fit")
    if not {"host", "x-amz-date", "x-amz-security-token"} <= set(signed.split(";")):
        raise Refused(f"too little is signed: {signed}")
    url = urlsplit(target)
    query = [(unquote_plus(k), unquote_plus(v)) for k, _, v in (p.partition("=") for p in url.query.split("&") if p)]
    digest = hashlib.sha256(body).hexdigest()
    if headers.get("x-amz-content-sha256", digest) != digest:
        raise Refused("XAmzContentSHA256Mismatch")
    canonical = canonical_request(method, url.path, query, headers, signed, digest)
    if not hmac.compare_digest(signature(key.secret, scope, when, canonical), given):
        raise Refused("SignatureDoesNotMatch")
    return key
