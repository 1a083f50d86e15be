#!/usr/bin/python3
"""Drives the fuzz harnesses of one build folder.

What README.md says of each harness (whether it is of a parser or of a step, how long its inputs may be) is read from there. A run is
made of slices: a harness with libFuzzer for some seconds, two at a time. What each executed is libFuzzer's own figure; its corpus
grows below the work folder, and a crasher is left there. Prints a line a harness and ends with "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
AT_ONCE = 2
BEGAN = time.monotonic()
SANITIZERS = {
    "ASAN_OPTIONS": "quarantine_size_mb=8:malloc_context_size=6:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}


class Harness:
    def __init__(self, name, kind, max_len, files):
        self.name, self.kind, self.max_len, self.files = name, kind, max_len, files


def harnesses():
    """The rows `| name | parser or step | longest input | what | files |` of README.md."""
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `([a-z0-9-]+)` \| (parser|step) \| ([0-9]+) \| .* \| ([^|]*) \|$", f.read(), re.M)
    return [Harness(name, kind, int(length), files.split()) for name, kind, length, files in rows]


class Runner:
    def __init__(self, build, work):
        self.build, self.work = os.path.abspath(build), os.path.abspath(work)
        self.env = {**os.environ, **SANITIZERS, "NC_SRCDIR": os.path.dirname(os.path.dirname(HERE))}

    def program(self, h):
        return os.path.join(self.build, "tests/fuzz/fuzz-" + h.name)

    def folder(self, *parts):
        path = os.path.join(self.work, *parts)
        os.makedirs(path, exist_ok=True)
        return path

    def seeds(self, h):
        return os.path.join(HERE, "corpus", h.name)

    def call(self, h, seconds, *args, max_len=0, env=None):
        """Exit code, what it printed, units executed. A harness that does not end by itself is ended, and has failed."""
        command = [self.program(h), f"-max_len={max_len or h.max_len}", "-rss_limit_mb=1024", "-timeout=120", "-entropic=0",
                   "-print_final_stats=1",
                   "-artifact_prefix=" + self.folder("crashes") + f"/{h.name}-", *args]
        try:
            p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=seconds, env=env or self.env, check=False)
            code, text = p.returncode, p.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as e:
            code, text = 124, (e.stdout or b"").decode("utf-8", "replace")
        found = re.findall(r"^stat::number_of_executed_units:\s*([0-9]+)", text, re.M)
        return code, text, int(found[-1]) if found else 0

    def slice(self, h, seconds, turn=0):
        """Every fourth turn with longer inputs."""
        grown = self.folder("corpus", h.name)
        started = time.monotonic()
        code, text, n = self.call(h, 2 * seconds + 300, f"-max_total_time={seconds}", grown, self.seeds(h),
                                  max_len=h.max_len * (4 if turn % 4 == 3 else 1))
        if code != 0:
            with open(os.path.join(self.folder("logs"), h.name + ".log"), "a", encoding="utf-8") as f:
                f.write(text)
        return code, n, time.monotonic() - started

    def replay(self, h):
        files = sum(len(names) for _, _, names in os.walk(self.seeds(h)))
        code, text, _ = self.call(h, 300, "-runs=0", self.seeds(h))
        return code if files else 1, files, text


def say(text):
    print(text, flush=True)


def verdict(h, code, text):
    say(f"{'ok' if code == 0 else 'FAILED'} {h.name}: {text}")
    return code == 0


def end(results):
    failed = sum(not ok for ok in results)
    say(f"{time.monotonic() - BEGAN:.0f} s")
    say(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed or not results else 0


def pool(work, items):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as p:
        return list(p.map(work, items))


def for_seconds(r, seconds):
    def one(h):
        code, n, took = r.slice(h, seconds)
        return verdict(h, code, f"{n} executions, {n / max(took, 0.001):.0f} a second")
    return pool(one, harnesses())


def replay(r):
    def one(h):
        code, files, text = r.replay(h)
        if code != 0:
            say(text[-4000:])
        return verdict(h, code, f"{files} files replayed")
    return pool(one, harnesses())


def for_ci(r, seconds):
    return replay(r) + for_seconds(r, max(1, seconds * AT_ONCE // len(harnesses())))


class Count:
    """Slices until the sums are reached. What was executed is kept in a file, so that a run goes on where the last one ended."""

    def __init__(self, r, wanted, seconds):
        self.r, self.wanted, self.seconds = r, wanted, seconds
        self.path = os.path.join(r.folder(), "executions.json")
        self.all, self.busy, self.failed = harnesses(), [], set()
        self.done = {h.name: {"executions": 0, "seconds": 0.0, "turns": 0} for h in self.all}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                self.done.update(json.load(f))

    def sum(self, kind):
        return sum(self.done[h.name]["executions"] for h in self.all if h.kind == kind)

    def next(self):
        """Of the kind that fewer are at work on, the harness that has had the least time."""
        short = [k for k, n in self.wanted.items() if n > self.sum(k)]
        free = [h for h in self.all if h.kind in short and h not in self.busy and h.name not in self.failed]
        return min(free, key=lambda h: (sum(b.kind == h.kind for b in self.busy), self.done[h.name]["seconds"]), default=None)

    def take(self, h, code, n, took):
        self.busy.remove(h)
        self.done[h.name]["executions"] += n
        self.done[h.name]["seconds"] += took
        self.done[h.name]["turns"] += 1
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.done, f, indent=1)
        os.replace(self.path + ".new", self.path)
        say(f"{time.strftime('%H:%M:%S')} {h.name}: +{n}; parsers {self.sum('parser')}, steps {self.sum('step')}")
        if code != 0:
            self.failed.add(h.name)

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as p:
            in_flight = {}
            while True:
                while len(in_flight) < AT_ONCE and (h := self.next()):
                    self.busy.append(h)
                    in_flight[p.submit(self.r.slice, h, self.seconds, self.done[h.name]["turns"])] = h
                if not in_flight:
                    break
                for f in concurrent.futures.wait(in_flight, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    self.take(in_flight.pop(f), *f.result())
        results = [verdict(h, h.name in self.failed, f"{self.done[h.name]['executions']} executions in "
                           f"{self.done[h.name]['seconds']:.0f} s") for h in self.all]
        for kind, n in self.wanted.items():
            say(f"executions of {kind}s: {self.sum(kind)} of {n}")
            results.append(self.sum(kind) >= n)
        return results


def coverage(r):
    """Lines and regions of the files of each row, by every corpus at once: what one harness does not reach, another may."""
    raw = r.folder("profile")

    def one(h):
        env = {**r.env, "LLVM_PROFILE_FILE": os.path.join(raw, h.name + ".profraw")}
        code, text, _ = r.call(h, 900, "-runs=0", r.folder("corpus", h.name), r.seeds(h), max_len=1 << 20, env=env)
        if code != 0:
            say(text[-2000:])
        return verdict(h, code, "replayed")
    results = pool(one, harnesses())
    data = os.path.join(r.work, "all.profdata")
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", "-o", data] + [os.path.join(raw, f) for f in sorted(os.listdir(raw))
                                                                             if f.endswith(".profraw")], check=True)
    objects = [a for h in harnesses() for a in ("-object", r.program(h))][1:]
    p = subprocess.run([tool("llvm-cov"), "export", "-summary-only", "-instr-profile=" + data, *objects],
                       stdout=subprocess.PIPE, check=True)
    found = {f["filename"].split("/src/")[-1]: f["summary"] for f in json.loads(p.stdout)["data"][0]["files"]}
    total = {"lines": [0, 0], "regions": [0, 0]}
    say(f"{'file':34} {'harness':14} {'lines':>16} {'regions':>16}")
    for h in harnesses():
        for name in h.files:
            s = found.get(name)
            results.append(s is not None)
            for k, both in total.items():
                both[0] += s[k]["covered"] if s else 0
                both[1] += s[k]["count"] if s else 0
            say(f"{name:34} {h.name:14} " + (f"{share(s['lines'])} {share(s['regions'])}" if s else "is in no harness"))
    say(f"{'all of them':49} " + " ".join(share({"covered": c, "count": n}) for c, n in total.values()))
    return results


def share(s):
    return f"{s['covered']:5}/{s['count']:<5}{100 * s['covered'] / max(s['count'], 1):4.0f} %"


def tool(name):
    """As clang's own version calls it."""
    version = subprocess.run(["clang", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    major = re.search(r"version ([0-9]+)", version).group(1)
    return shutil.which(f"{name}-{major}") or name


def minimise(r, max_files):
    """Of the grown corpora what reaches something that the committed ones do not: so many of each, small ones and large ones."""
    def one(h):
        thin = os.path.join(r.folder("thin"), h.name)
        shutil.rmtree(thin, ignore_errors=True)
        shutil.copytree(r.seeds(h), thin)
        code, text, _ = r.call(h, 900, "-merge=1", thin, r.folder("corpus", h.name))
        if code != 0:
            say(text[-2000:])
            return verdict(h, code, "cannot be merged")
        new = set(os.listdir(thin)) - set(os.listdir(r.seeds(h)))
        by_size = sorted(new, key=lambda n: (os.path.getsize(os.path.join(thin, n)), n))
        kept = by_size[::-(-len(by_size) // max_files) or 1]
        for name in kept:
            with open(os.path.join(thin, name), "rb") as f, open(os.path.join(r.seeds(h), name[:12]), "wb") as to:
                to.write(f.read())
        return verdict(h, 0, f"{len(kept)} of {len(by_size)} files kept")
    return pool(one, harnesses())


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--build", required=True)
    a.add_argument("--work", required=True)
    a.add_argument("--seconds", type=int)
    a.add_argument("--slice", type=int, default=60)
    a.add_argument("--ci", type=int, nargs="?", const=300, metavar="SECONDS")
    a.add_argument("--coverage", action="store_true")
    a.add_argument("--executions", type=int, nargs=2, metavar=("PARSERS", "STEPS"))
    a.add_argument("--minimise", type=int, metavar="FILES")
    o = a.parse_args()
    r = Runner(o.build, o.work)
    if o.executions:
        return end(Count(r, dict(zip(("parser", "step"), o.executions)), o.slice).run())
    if o.minimise:
        return end(minimise(r, o.minimise))
    if o.coverage:
        return end(coverage(r))
    if o.ci:
        return end(for_ci(r, o.ci))
    return end(for_seconds(r, o.seconds or 60))


if __name__ == "__main__":
    sys.exit(main())
