"""The JSON Schema of AgentConfig against `check --strict`, by an independent validator: what the schema refuses check refuses, and what
check takes the schema takes. And the example has every field."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import unittest
from typing import Iterator

import jsonschema
import yaml

from harness import PATIENCE, SOURCE, WorldTest

from demo import install_tables

SCHEMA = SOURCE / "data/agentconfig.schema.json"
EXAMPLE = SOURCE / "data/agentconfig.example.yaml"
BATCH = 8  # documents of one run: each has ten faults at most, and check names a hundred
VALUES = (None, True, False, 0, -1, 1.5, 10**12, "", "x", "off", "5m", "1Gi", "/a", [], ["x"], [1], [None], {}, {"x": "y"}, {"cpu": 1})


def paths(schema: "dict[str, object]", path: "tuple[object, ...]" = ()) -> "Iterator[tuple[tuple[object, ...], dict[str, object]]]":
    """Every field that the schema names, and its own schema; 0 is an item of a list."""
    for name, one in schema.get("properties", {}).items():  # type: ignore[attr-defined]
        yield path + (name,), one
        yield from paths(one, path + (name,))
        if isinstance(one.get("items"), dict):
            yield from paths(one["items"], path + (name, 0))


def with_value(document: object, path: "tuple[object, ...]", value: object) -> object:
    """A copy of the document in which the field has this value."""
    changed = copy.deepcopy(document)
    at = changed
    for step, following in zip(path, path[1:]):
        if isinstance(step, str):
            if at.get(step) is None:  # type: ignore[attr-defined]
                at[step] = [{"key": "a", "effect": "NoExecute"}] if following == 0 else {}  # type: ignore[index]
        at = at[step]  # type: ignore[index]
    at[path[-1]] = value  # type: ignore[index]
    return changed


class JsonSchema(WorldTest):
    def setUp(self) -> None:
        self.schema = json.loads(SCHEMA.read_text())
        jsonschema.Draft7Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft7Validator(self.schema)
        self.w = self.world()

    def refused(self, documents: "list[object]") -> "list[bool]":
        """Which of these `check --strict --fragment` refuses: a document is a line of what it reads, and a fault names the line."""
        result = []
        for first in range(0, len(documents), BATCH):
            batch = documents[first : first + BATCH]
            command = self.w.command("check", "--strict", "--fragment", "-o", "json", "-")
            text = "".join(f"--- {json.dumps(document)}\n" for document in batch)
            done = subprocess.run(command, input=text, capture_output=True, text=True, env=self.w.environment(), timeout=60 * PATIENCE)
            self.assertIn(done.returncode, (0, 3), done.stderr)
            lines = [fault.get("line") for fault in json.loads(done.stdout)]
            self.assertEqual(bool(lines), done.returncode == 3, done.stdout)
            self.assertNotIn(None, lines, done.stdout)
            self.assertLess(len(lines), 100, "as many as it names: others may be missing")
            result += [line in lines for line in range(1, len(batch) + 1)]
        return result

    def test_every_field_with_every_kind_of_value(self) -> None:
        base = {"apiVersion": "nodeclaimd.io/v1alpha1", "kind": "AgentConfig", "spec": {}}
        fields = [path for path, _ in paths(self.schema) if path[0] == "spec"]
        self.assertGreater(len(fields), 150)
        documents = [with_value(base, path, value) for path in fields for value in VALUES]
        documents += [with_value(base, path + ("none",), 1) for path, one in paths(self.schema) if one.get("additionalProperties") is False]
        documents += [{**base, "kind": "Agent"}, {**base, "apiVersion": "v1"}, {**base, "more": 1}, {"spec": {}}, base]
        by_check = self.refused(documents)
        by_schema = [not self.validator.is_valid(document) for document in documents]
        wrong = [json.dumps(d) for d, check, schema in zip(documents, by_check, by_schema) if schema and not check]
        self.assertEqual(wrong, [], "the schema refuses what check takes")
        # and it is worth something: all but what predicates know
        self.assertGreater(sum(by_schema), 0.85 * sum(by_check))
        self.assertGreater(len(documents) - sum(by_check), 500)

    def test_documents_of_the_tests_and_of_people(self) -> None:
        """Documents that a bootstrap takes: the golden trees' own, and those in user data."""
        texts = [path.read_text() for path in sorted((SOURCE / "tests/golden").glob("*/agent.yaml"))]
        for path in sorted((SOURCE / "userdata").glob("*.mime")):
            texts += re.findall(r"^apiVersion: nodeclaimd\.io/.*?(?=\n--|\Z)", path.read_text(), re.M | re.S)
        page = (SOURCE / "man/nodeclaimd.yaml.5").read_text()
        texts += re.findall(r"\.Bd -literal\n(apiVersion: nodeclaimd.*?)\.Ed", page, re.S)
        self.assertGreater(len(texts), 20)
        for text in texts:
            self.assertEqual([e.message for e in self.validator.iter_errors(yaml.safe_load(text))], [], text)

    def test_the_example_is_complete_and_right(self) -> None:
        document = yaml.safe_load(EXAMPLE.read_text())
        self.assertEqual([e.message for e in self.validator.iter_errors(document)], [])
        install_tables(self.w.root)
        done = self.w.run("check", "--strict", str(EXAMPLE))
        self.assertEqual((done.code, done.err), (0, ""), done.out)
        missing = []
        for path, one in paths(self.schema):
            at = document
            for step in path:
                at = at.get(step) if isinstance(step, str) and isinstance(at, dict) else at[step] if isinstance(at, list) else None
            if at is None and path[0] != "metadata" and path[:3] != ("spec", "kubelet", "config") and not one.get("deprecated"):
                missing.append(".".join(map(str, path)))
        self.assertEqual(missing, [])
        self.assertLessEqual(max(len(line) for line in EXAMPLE.read_text().splitlines() if "LS0t" not in line), 150)


if __name__ == "__main__":
    unittest.main()
