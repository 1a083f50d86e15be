# What the role may do, and who may assume it. This file needs no provider: `terraform console` shows local.policy and local.trust.

variable "cluster_name" {
  description = "Name of the EKS cluster. With var.terminate the controller ends instances with the tag kubernetes.io/cluster/NAME=owned only."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.cluster_name))
    error_message = "cluster_name is 1 to 100 letters, digits, hyphens and underscores, and begins with a letter or a digit."
  }
}

variable "terminate" {
  description = "The controller runs with --terminate: it may end the cluster's instances."
  type        = bool
  default     = false
}

variable "complete_lifecycle_actions" {
  description = "The controller runs with --complete-lifecycle-actions: it may complete those of Auto Scaling groups with the tag kubernetes.io/cluster/NAME=owned."
  type        = bool
  default     = false
}

variable "namespace" {
  description = "Namespace of the ServiceAccount nodeclaim-controller."
  type        = string
  default     = "kube-system"
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider: the role is for IRSA. Without it the role is for EKS Pod Identity."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_provider_arn == null || can(regex(":oidc-provider/.", var.oidc_provider_arn))
    error_message = "oidc_provider_arn is arn:aws:iam::ACCOUNT:oidc-provider/ISSUER."
  }
}

locals {
  service_account  = "nodeclaim-controller"
  has_pod_identity = var.oidc_provider_arn == null

  # The source is ../iam-policy.json.
  document = jsondecode(replace(file("${path.module}/../iam-policy.json"), "CLUSTER_NAME", var.cluster_name))
  is_wanted = {
    NameInstances                         = true
    TerminateInstancesOfThisCluster       = var.terminate
    FindGroups                            = var.complete_lifecycle_actions
    CompleteLifecycleActionsOfThisCluster = var.complete_lifecycle_actions
  }
  policy = jsonencode(merge(local.document, {
    Statement = [for s in local.document.Statement : s if local.is_wanted[s.Sid]]
  }))

  issuer = local.has_pod_identity ? "" : split(":oidc-provider/", var.oidc_provider_arn)[1]
  pod_identity = {
    Effect    = "Allow"
    Principal = { Service = "pods.eks.amazonaws.com" }
    Action    = ["sts:AssumeRole", "sts:TagSession"]
    Condition = { StringEquals = {
      "aws:RequestTag/eks-cluster-name"           = var.cluster_name
      "aws:RequestTag/kubernetes-namespace"       = var.namespace
      "aws:RequestTag/kubernetes-service-account" = local.service_account
    } }
  }
  irsa = {
    Effect    = "Allow"
    Principal = { Federated = var.oidc_provider_arn }
    Action    = "sts:AssumeRoleWithWebIdentity"
    Condition = { StringEquals = {
      "${local.issuer}:aud" = "sts.amazonaws.com"
      "${local.issuer}:sub" = "system:serviceaccount:${var.namespace}:${local.service_account}"
    } }
  }
  # Two objects of different types: the choice is made on their JSON.
  trust = join("", [
    "{\"Version\":\"2012-10-17\",\"Statement\":[",
    local.has_pod_identity ? jsonencode(local.pod_identity) : jsonencode(local.irsa),
    "]}",
  ])
}
