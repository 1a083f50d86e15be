"""What is promised for a fault, by its meaning and by what the operation is good for. Written down from the design (§10: error
classes; §5, §7, §8), not from the program.

Gives: `Promise`; `passing()`, `lasting()`: how a bootstrap ends where the fault goes away, and where it never does;
`draining()`, `draining_without()`: the same of a drain; `ANSWERS`: what is no fault of a drain.

A peer that is away or slow, or says 429 or 5xx: transient, tried until the deadline. 401, 403, a certificate that is not to be
trusted: auth. What is not the answer to the question (HTML, a redirect, another status): protocol. Where the operation is no
condition of the node (`may`), the boot goes on without it and ends well.
"""

from __future__ import annotations

from dataclasses import dataclass

EXIT_CODES = {"T": 1, "C": 3, "A": 4, "P": 5, "H": 6, "W": 0, "R": 0, "L": 0}
CLASS_NAMES = {"T": "transient", "C": "config", "A": "auth", "P": "protocol", "H": "host"}

# The letter of each meaning, where the operation must succeed.
MEANING = {
    "away": "T",
    "silent": "T",
    "nonsense": "P",
    "redirect": "P",
    "tls": "A",
    "400": "P",
    "401": "A",
    "403": "A",
    "404": "P",
    "409": "P",
    "410": "P",
    "422": "P",
    "429": "T",
    "5xx": "T",
}

# Where an operation has a meaning of its own for a way, or for a meaning: (operation or server, way or meaning) -> letter.
BOOT: dict[tuple[str, str], str] = {
    # 403 of the metadata service is the instance's own setting (HttpEndpoint), whatever was asked.
    ("imds", "403"): "C",
    # There is none: what it would have said is found otherwise, or not needed.
    ("imds local-hostname", "404"): "W",  # EC2 is asked
    ("imds zone-id", "404"): "W",
    ("imds life-cycle", "404"): "W",
    ("imds domain", "404"): "W",  # follows from the region
    ("imds local-ipv4", "404"): "W",  # then it has an IPv6 address, or kubelet finds one itself
    # No Auto Scaling group, or a state that is none: a node can do without.
    **{("imds target-state", way): "W" for way in ("404", "array", "empty", "nul", "bad-utf8")},
    # No role (yet): somebody may attach one.
    ("imds role", "404"): "T",
    ("imds credentials", "404"): "T",
    # A document that is no document, or none at all: its author must act.
    **{("imds user-data", way): "C" for way in ("array", "empty", "nul", "bad-utf8", "deep", "404")},
    # EC2 takes no more than 16 KiB: more is its author's doing as well.
    **{("imds user-data", way): "C" for way in ("oversized", "huge-header")},
}

# Only where it lasts.
LASTING: dict[tuple[str, str], str] = {
    ("node watch", "410"): "W",  # listed anew each time, and the Node is in the list
    ("node watch", "empty"): "T",  # an end is an answer; at once, again and again, it is a server that does not do its part
}

# Operations whose failure, of whatever kind, does not keep a node from joining.
BEFORE_REGISTERED = ("claims search", "claim get", "node get")
MAY = ("claims search", "claim get", "ec2 types", "node status", "node patch")
# Whether another instance's Node has our name: waited for while the peer is away, and no more than that.
ONLY_WAITED_FOR = ("node get",)


@dataclass(frozen=True)
class Promise:
    letter: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.letter]


def found(table: dict[tuple[str, str], str], operation: str, way: str, meaning: str) -> str:
    server = operation.split()[0]
    keys = ((operation, way), (operation, meaning), (server, way), (server, meaning))
    return next((table[k] for k in keys if k in table), "")


def lasting(operation: str, way: str, meaning: str, is_wide: bool) -> Promise:
    """`is_wide`: what must succeed does not get through either."""
    may = operation in MAY or (operation in ONLY_WAITED_FOR and MEANING[meaning] != "T")
    is_needed = not may or (is_wide and operation in BEFORE_REGISTERED)
    return Promise(found({**BOOT, **LASTING}, operation, way, meaning) or (MEANING[meaning] if is_needed else "W"))


# Where the fault passes, everything that can be asked again is: a boot ends well. What only a person can change is refused at
# once, for it cannot pass by itself.
def passing(operation: str, way: str, meaning: str) -> Promise:
    letter = found(BOOT, operation, way, meaning)
    return Promise(letter if letter in ("C", "W") else "W" if operation in MAY else "R")


# Of a drain: what an API server refuses for good (a policy, no access) is tried again a minute later, and what follows it is
# done meanwhile: the pods leave all the same.
DRAIN: dict[tuple[str, str], str] = {(row, code): "W" for row in ("node status", "node patch") for code in ("403", "404", "422")}


def draining(operation: str, way: str, meaning: str) -> Promise:
    return Promise(found(DRAIN, operation, way, meaning) or "R")


# Where it never goes: who is not known cannot be asked to leave, and what is not heard does not happen. All else has another way: a
# write that fails holds the next step up for a moment only, a pod that is not evicted is deleted at its last moment.
LATE = ("pods list", "pod delete")
CARRIED_OUT = {("pod delete", way) for way in ("reset-midway", "truncated")}  # only the answer is lost
# Not faults: the notice is withdrawn; the pod is gone, and a server that lists it all the same contradicts itself.
ANSWERS = {("imds spot", "404"), ("pod delete", "404")}


def draining_without(operation: str, way: str, is_wide: bool) -> Promise:
    is_deaf = is_wide and not operation.startswith("imds")
    is_late = operation in LATE and (operation, way) not in CARRIED_OUT
    return Promise("L" if is_late or is_deaf else "W")
