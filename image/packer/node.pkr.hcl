# An AMI of nodes: the EKS AL2023 AMI, or a bare Debian 12 or Amazon Linux 2023, after image/provision.
#
#   packer init image/packer
#   packer build -var region=eu-west-1 -var source_ami=ami-… -var bundle=nodeclaimd-image.tar.gz image/packer

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = "1.8.0"
    }
  }
}

variable "region" {
  type = string
}

variable "source_ami" {
  type        = string
  description = "The image to begin with; that of EKS is in the parameter store below /aws/service/eks/optimized-ami."
}

variable "bundle" {
  type        = string
  description = "The archive of ../README.md, built for the distribution and the architecture of source_ami."
}

variable "instance_type" {
  type        = string
  default     = "m7i.large"
  description = "Of the architecture of source_ami."
}

variable "ssh_username" {
  type        = string
  default     = "ec2-user"
  description = "admin on Debian."
}

variable "name" {
  type    = string
  default = "nodeclaimd"
}

variable "nodeclaimd_version" {
  type        = string
  default     = "unknown"
  description = "Version or commit of the package in the bundle: a tag of the image."
}

variable "options" {
  type        = string
  default     = ""
  description = "More options of image/provision; files that they name must be in the source image."
}

variable "subnet_id" {
  type        = string
  default     = null
  description = "Where the build runs; null: the default VPC."
}

variable "iam_instance_profile" {
  type        = string
  default     = null
  description = "Of the instance that builds."
}

variable "ssh_interface" {
  type        = string
  default     = null
  description = "session_manager or private_ip for a subnet that cannot be reached from outside."
}

variable "kms_key_id" {
  type        = string
  default     = null
  description = "Encrypts the image; null: as the account does by default."
}

variable "ami_users" {
  type        = list(string)
  default     = []
  description = "Accounts that may start the image."
}

source "amazon-ebs" "node" {
  region        = var.region
  source_ami    = var.source_ami
  instance_type = var.instance_type
  ssh_username  = var.ssh_username

  subnet_id            = var.subnet_id
  ssh_interface        = var.ssh_interface
  iam_instance_profile = var.iam_instance_profile
  encrypt_boot         = var.kms_key_id == null ? null : true
  kms_key_id           = var.kms_key_id
  ami_users            = var.ami_users

  # Packer's own key for this build.
  ssh_clear_authorized_keys = true

  ami_name = "${var.name}-${formatdate("YYYYMMDDhhmmss", timestamp())}"

  # What nodes of this image are to have as well: IMDSv2 alone.
  imds_support = "v2.0"
  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
  run_tags = {
    Name = "packer-${var.name}"
  }
  tags = {
    Name                  = var.name
    source_ami            = var.source_ami
    nodeclaimd_version    = var.nodeclaimd_version
    "nodeclaimd.io/image" = "node" # of every image, whatever its name: what an EC2NodeClass selects
  }
}

build {
  sources = ["source.amazon-ebs.node"]

  # Where a login user may write.
  provisioner "file" {
    source      = var.bundle
    destination = "/tmp/nodeclaimd-image.tar.gz"
  }

  # The last step before the snapshot, so it seals. Its exit code is that of preflight: an image that
  # nodes could not boot from is not made.
  provisioner "shell" {
    inline = [
      "mkdir /tmp/nodeclaimd-image",
      "tar -xzf /tmp/nodeclaimd-image.tar.gz -C /tmp/nodeclaimd-image",
      "sudo /tmp/nodeclaimd-image/provision --install /tmp/nodeclaimd-image/install --seal ${var.options}",
      "sudo rm -rf /tmp/nodeclaimd-image /tmp/nodeclaimd-image.tar.gz",
    ]
  }
}
