"""What is promised of the controller where a request of it fails: what is counted, what is said. Written down from the design (§9,
§10), not from the program. That all else recovers is the same for every cell.
"""

from __future__ import annotations

WRITES = ("claim stamp", "claim delete", "claim status", "node patch", "node delete", "event")
CLOUD = ("ec2 end", "imds token", "imds role", "imds credentials")


def is_refused_write(operation: str, meaning: str) -> bool:
    """Asking again does not help soon: it is said, and asked less and less often."""
    return operation in WRITES and meaning in ("400", "403", "422")


def is_counted(operation: str, way: str, meaning: str) -> bool:
    """That the API server did not do its part. Nobody notices where a connection that has been used before ends and the next
    one answers; "not found", "conflict" and "gone" are answers; a watch that ends is an end; of an Event nobody reads what comes
    back."""
    if operation in CLOUD or (operation.endswith(" watch") and way == "empty") or (operation == "event" and meaning == "nonsense"):
        return False
    return meaning in ("nonsense", "redirect", "400", "401", "403", "422", "429", "5xx")


# Cells that say nothing of a fault: that Karpenter's kinds are not served is an answer; it is asked again after half a minute.
NOT_HERE = {("versions", "404")}
