"""Our signatures against botocore's, on random requests: sigv4.py PROGRAM CASES SEED.

Half of them are presigned URLs, half Authorization headers. Both sides are pure arithmetic: nobody is asked. Prints the first
differences, then one line of counts; the exit code is 1 where anything differs.

Not asked: dot segments and doubled slashes in a path (botocore takes them out, ours signs what is sent), a header twice, white space that no
header may hold, and spaces in a session token.
"""
import datetime
import random
import subprocess
import sys

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

CHUNK = 10000
MOST_SAID = 10
PLAIN = "abcXYZ019-._~"
STRANGE = " !\"#$%&'()*+,/:;<=>?@[\\]^`{|}é€😀\x7f"
KEY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
UNSIGNED = {"expect", "transfer-encoding", "user-agent", "x-amzn-trace-id", "authorization", "date", "host"}


def text(r: random.Random, most: int, alphabet: str = PLAIN + STRANGE, least: int = 0) -> str:
    return "".join(r.choices(alphabet, k=r.randint(least, most)))


def unique(r: random.Random, most: int, name) -> list[tuple[str, str]]:
    names = {name() for _ in range(r.randint(0, most))}
    return [(n, text(r, r.choice((0, 5, 60)))) for n in sorted(names, key=lambda _: r.random())]


def path(r: random.Random) -> str:
    parts = [text(r, 8, r.choice((PLAIN, PLAIN + "!$&'()*+,;=:@") ), 1) for _ in range(r.randint(1, 4))]
    escaped = [p + r.choice(("", "", "%20", "%C3%A9", "%2F", "%25")) for p in parts]
    whole = "/".join(p for p in escaped if p.strip("."))
    return "/" + whole + (r.choice(("", "/")) if whole else "")


def request(r: random.Random) -> dict:
    presigned = r.random() < 0.5
    headers = unique(r, 4, lambda: text(r, 12, "abcdefx-mz019", 1).strip("-") or "x")
    headers = [(n, r.choice(("", " ", "\t")) + v.replace("\x7f", "") + r.choice(("", "  ", " a\t b ")))
               for n, v in headers if n not in UNSIGNED and not n.startswith("x-amz-")]
    query = unique(r, 5, lambda: text(r, 10, least=1))
    if not presigned and query and r.random() < 0.2:
        query.append((query[0][0], text(r, 5)))
    return {
        "presigned": presigned,
        "method": r.choice(("GET", "POST", "PUT", "DELETE", "HEAD")),
        "host": text(r, 20, "abcxyz019-", 1) + "." + r.choice(("amazonaws.com", "amazonaws.com.cn", "example:8443", "c2s.ic.gov")),
        "path": r.choice(("/", "/", path(r))),
        "query": query,
        "headers": headers,
        "body": b"" if presigned else r.choice((b"", b"Action=DescribeInstances&x=%20", r.randbytes(r.randint(0, 90)))),
        "region": r.choice(("us-west-2", "cn-north-1", "us-gov-east-1", "eu-isoe-west-1")),
        "service": r.choice(("sts", "ec2", "execute-api")),
        "time": r.randint(0, 4102444800),
        "expires": r.choice((1, 60, 900, 604800, r.randint(1, 604800))),
        "id": text(r, 20, KEY[:26], 16),
        "secret": text(r, 50, KEY + STRANGE, 1),
        "token": r.choice((None, text(r, 300, KEY, 1), text(r, 30, KEY + STRANGE.strip(), 1))),
    }


def line(q: dict) -> bytes:
    def packed(pairs: list[tuple[str, str]]) -> str:
        return "".join(f"{n}\0{v}\0" for n, v in pairs)

    keys = q["secret"] + "\0" + (q["token"] + "\0" if q["token"] is not None else "")
    fields = [q["method"], q["host"], q["path"], packed(q["query"]), packed(q["headers"]), q["body"], q["region"], q["service"],
              str(q["time"] * 1000000 + 7), str(q["expires"]), q["id"], keys]
    return b"\t".join((f if isinstance(f, bytes) else f.encode()).hex().encode() for f in fields)


def botocores(q: dict) -> str:
    when = datetime.datetime.fromtimestamp(q["time"], datetime.timezone.utc)
    botocore.auth.get_current_datetime = lambda *_unused, **_more: when
    credentials = Credentials(q["id"], q["secret"], q["token"])
    params = dict(q["query"]) if q["presigned"] else q["query"]
    made = AWSRequest(method=q["method"], url=f"https://{q['host']}{q['path']}", data=q["body"], params=params, headers=dict(q["headers"]))
    made.context["timestamp"] = when.strftime("%Y%m%dT%H%M%SZ")
    if q["presigned"]:
        botocore.auth.SigV4QueryAuth(credentials, q["service"], q["region"], q["expires"]).add_auth(made)
        return made.url
    botocore.auth.SigV4Auth(credentials, q["service"], q["region"]).add_auth(made)
    names = ["Authorization", "X-Amz-Date"] + (["X-Amz-Security-Token"] if q["token"] is not None else [])
    return "\n".join(f"{n}: {made.headers[n]}" for n in names)


def ours(program: str, questions: list[dict]) -> list[str]:
    """One answer a question; the presigned ones and the others go to two processes."""
    answers: dict[int, str] = {}
    for presigned, reader in ((True, "presign"), (False, "headers")):
        places = [i for i, q in enumerate(questions) if q["presigned"] is presigned]
        given = b"".join(line(questions[i]) + b"\n" for i in places)
        said = subprocess.run([program, reader], input=given, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
        if len(said) != len(places):
            raise SystemExit(f"{len(said)} answers to {len(places)} questions")
        for i, answer in zip(places, said):
            words = answer.split(" ")
            is_read = words[0] == "is"
            answers[i] = "\n".join(bytes.fromhex(w).decode() for w in words[1:]) if is_read else answer
    return [answers[i] for i in range(len(questions))]


def main() -> int:
    program, cases, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    r = random.Random(seed)
    different = presigned = 0
    for start in range(0, cases, CHUNK):
        questions = [request(r) for _ in range(min(CHUNK, cases - start))]
        for q, answer in zip(questions, ours(program, questions)):
            expected = botocores(q)
            presigned += q["presigned"]
            if answer == expected:
                continue
            different += 1
            if different <= MOST_SAID:
                print(f"{q}\n  botocore {expected}\n  we       {answer}")
    print(f"signatures: seed {seed}, {cases} cases, {different} different; {presigned} presigned, {cases - presigned} headers")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
