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
  description = "Version of the program in the bundle, as release/version prints it: a tag of the image."
}

variable "options" {
  type        = string
  default     = ""
  description = "More options of image/provision; files that they name are in the bundle, which is unpacked in /tmp/nodeclaimd-image, or in source_ami."
}

variable "subnet_id" {
  type        = string
  default     = null
  description = "Where the build runs; null: the default VPC."
}

variable "security_group_id" {
  type        = string
  default     = null
  description = "Of the instance that builds; null: one for this build alone, which admits SSH."
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

variable "root_volume_size" {
  type        = number
  default     = null
  description = "In GiB; null: that of source_ami."
}

variable "root_volume_type" {
  type        = string
  default     = null
  description = "gp3 and the like; null: that of source_ami."
}

variable "root_device_name" {
  type        = string
  default     = "/dev/xvda"
  description = "Of source_ami, for size and type of the root volume. /dev/sda1 on Ubuntu: a name that the image does not have adds a volume."
}

variable "ami_regions" {
  type        = list(string)
  default     = []
  description = "Other regions, into which the image is copied, with its tags."
}

variable "kms_key_id" {
  type        = string
  default     = null
  description = "Encrypts the image; null: as the account does by default."
}

variable "region_kms_key_ids" {
  type        = map(string)
  default     = {}
  description = "The key of each of ami_regions, which encrypts the copy there. Without keys: as the account does by default, or its default key with kms_key_id."
}

variable "ami_users" {
  type        = list(string)
  default     = []
  description = "Accounts that may start the image. An encrypted one needs a key of yours, which they may use, in each region."
}

variable "ami_org_arns" {
  type        = list(string)
  default     = []
  description = "ARNs of organizations, whose accounts may start the image."
}

variable "snapshot_users" {
  type        = list(string)
  default     = []
  description = "Accounts that may copy the image's snapshot."
}

variable "extra_tags" {
  type        = map(string)
  default     = {}
  description = "More tags of the image, its snapshots, and the instance and volumes of the build, as an organization may demand them. Those of this file win."
}

variable "snapshot_tags" {
  type        = map(string)
  default     = {}
  description = "More tags of that snapshot alone."
}

source "amazon-ebs" "node" {
  region        = var.region
  source_ami    = var.source_ami
  instance_type = var.instance_type
  ssh_username  = var.ssh_username

  subnet_id            = var.subnet_id
  security_group_id    = var.security_group_id
  ssh_interface        = var.ssh_interface
  iam_instance_profile = var.iam_instance_profile
  ami_regions          = var.ami_regions
  encrypt_boot         = var.kms_key_id == null && length(var.region_kms_key_ids) == 0 ? null : true
  kms_key_id           = var.kms_key_id
  region_kms_key_ids   = var.region_kms_key_ids
  ami_users            = var.ami_users
  ami_org_arns         = var.ami_org_arns
  snapshot_users       = var.snapshot_users
  snapshot_tags        = merge(var.extra_tags, var.snapshot_tags)

  dynamic "launch_block_device_mappings" {
    for_each = var.root_volume_size == null && var.root_volume_type == null ? [] : [var.root_device_name]
    content {
      device_name           = launch_block_device_mappings.value
      volume_size           = var.root_volume_size
      volume_type           = var.root_volume_type
      delete_on_termination = true
    }
  }

  # Packer's own key for this build.
  ssh_clear_authorized_keys = true

  ami_name = "${var.name}-${formatdate("YYYYMMDDhhmmss", timestamp())}"

  # What nodes of this image are to have as well: IMDSv2 alone.
  imds_support = "v2.0"
  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
  run_tags = merge(var.extra_tags, {
    Name = "packer-${var.name}"
  })
  run_volume_tags = merge(var.extra_tags, {
    Name = "packer-${var.name}"
  })
  tags = merge(var.extra_tags, {
    Name                  = var.name
    source_ami            = var.source_ami
    nodeclaimd_version    = var.nodeclaimd_version
    "nodeclaimd.io/image" = "node" # of every image, whatever its name: what an EC2NodeClass selects
  })
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

  # The IDs of the images, in the folder where packer runs.
  post-processor "manifest" {
    output = "packer-manifest.json"
  }
}
