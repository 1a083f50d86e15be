# The IAM role of nodeclaim-controller, in mode standalone or with --complete-lifecycle-actions: for EKS Pod Identity, or for IRSA where an OIDC provider is given.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.30"
    }
  }
}

variable "role_name" {
  description = "Name of the role; default CLUSTER_NAME-nodeclaim-controller."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the role and of its association."
  type        = map(string)
  default     = {}
}

resource "aws_iam_role" "this" {
  name               = coalesce(var.role_name, "${var.cluster_name}-nodeclaim-controller")
  assume_role_policy = local.trust
  tags               = var.tags
}

resource "aws_iam_role_policy" "this" {
  name   = "nodeclaim-controller"
  role   = aws_iam_role.this.name
  policy = local.policy
}

resource "aws_eks_pod_identity_association" "this" {
  count           = local.has_pod_identity ? 1 : 0
  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = local.service_account
  role_arn        = aws_iam_role.this.arn
  tags            = var.tags
}

output "role_arn" {
  description = "With IRSA: the value of the annotation eks.amazonaws.com/role-arn of the ServiceAccount."
  value       = aws_iam_role.this.arn
}
