"""deploy/terraform, evaluated by Terraform or OpenTofu: the policy and the trust of the role. The provider of AWS is not needed for that."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
PROGRAM = shutil.which("terraform") or shutil.which("tofu")
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/ABC"
SHOWS = 'output "policy" {\n  value = local.policy\n}\n\noutput "trust" {\n  value = local.trust\n}\n'


class PolicyTest(unittest.TestCase):
    def test_statements_to_delete(self) -> None:
        """Whoever takes the file itself is told of each that only an option needs."""
        text = (DEPLOY / "README.md").read_text(encoding="utf-8")
        (rows,) = re.findall(r"Delete those of an option that you do not use:\n\n((?:\*.*\n(?:  .*\n)*)+)", text)
        sids = {s["Sid"] for s in json.loads((DEPLOY / "iam-policy.json").read_text(encoding="utf-8"))["Statement"]}
        self.assertEqual(set(re.findall(r"`(\w+)`", rows)), sids - {"NameInstances"})


@unittest.skipUnless(PROGRAM, "terraform is missing, and so is tofu")
class TerraformTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="nodeclaimd-terraform-")
        self.addCleanup(folder.cleanup)
        self.module = Path(folder.name) / "terraform"
        self.module.mkdir()
        shutil.copy(DEPLOY / "iam-policy.json", folder.name)
        shutil.copy(DEPLOY / "terraform" / "policy.tf", self.module)
        (self.module / "shows.tf").write_text(SHOWS)

    def run_it(self, *args: str, folder: Path) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}
        return subprocess.run([str(PROGRAM), *args], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)

    def evaluate(self, **variables: str) -> "subprocess.CompletedProcess[str]":
        return self.run_it(
            "apply", "-auto-approve", "-no-color", *(f"-var={k}={v}" for k, v in variables.items()), folder=self.module
        )

    def outputs(self, **variables: str) -> tuple[dict[str, Any], dict[str, Any]]:
        done = self.evaluate(**variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_it("output", "-json", folder=self.module)
        values = {k: json.loads(v["value"]) for k, v in json.loads(done.stdout).items()}
        return values["policy"], values["trust"]

    def test_format(self) -> None:
        done = self.run_it("fmt", "-check", "-diff", folder=DEPLOY / "terraform")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_policy(self) -> None:
        """That of iam-policy.json with the cluster's name; without `terminate` nothing can be ended."""
        policy, _ = self.outputs(cluster_name="production", terminate="true", complete_lifecycle_actions="true")
        source = (DEPLOY / "iam-policy.json").read_text(encoding="utf-8")
        self.assertEqual(policy, json.loads(source.replace("CLUSTER_NAME", "production")))
        self.assertIn("aws:ResourceTag/kubernetes.io/cluster/production", json.dumps(policy))
        policy, _ = self.outputs(cluster_name="production")
        self.assertEqual([s["Action"] for s in policy["Statement"]], ["ec2:DescribeInstances"])
        policy, _ = self.outputs(cluster_name="production", complete_lifecycle_actions="true")
        self.assertEqual(
            [s["Sid"] for s in policy["Statement"]], ["NameInstances", "FindGroups", "CompleteLifecycleActionsOfThisCluster"]
        )

    def test_pod_identity(self) -> None:
        """One ServiceAccount of one cluster."""
        _, trust = self.outputs(cluster_name="production")
        (statement,) = trust["Statement"]
        self.assertEqual(statement["Principal"], {"Service": "pods.eks.amazonaws.com"})
        self.assertEqual(statement["Action"], ["sts:AssumeRole", "sts:TagSession"])
        self.assertEqual(
            statement["Condition"]["StringEquals"],
            {
                "aws:RequestTag/eks-cluster-name": "production",
                "aws:RequestTag/kubernetes-namespace": "kube-system",
                "aws:RequestTag/kubernetes-service-account": "nodeclaim-controller",
            },
        )

    def test_irsa(self) -> None:
        provider = f"arn:aws:iam::111122223333:oidc-provider/{ISSUER}"
        _, trust = self.outputs(cluster_name="production", namespace="nodes", oidc_provider_arn=provider)
        (statement,) = trust["Statement"]
        self.assertEqual(statement["Principal"], {"Federated": provider})
        self.assertEqual(statement["Action"], "sts:AssumeRoleWithWebIdentity")
        self.assertEqual(
            statement["Condition"]["StringEquals"],
            {f"{ISSUER}:aud": "sts.amazonaws.com", f"{ISSUER}:sub": "system:serviceaccount:nodes:nodeclaim-controller"},
        )

    def test_bad_variables(self) -> None:
        for variables, said in (
            ({"cluster_name": 'a"b'}, "cluster_name is 1 to 100 letters"),
            ({"cluster_name": "a", "oidc_provider_arn": "https://example.com"}, "oidc_provider_arn is arn:aws:iam::"),
        ):
            done = self.evaluate(**variables)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(said, " ".join((done.stdout + done.stderr).replace("│", " ").split()))


if __name__ == "__main__":
    unittest.main()
