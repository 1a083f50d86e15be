# Ubuntu's EKS image for arm64: values of node.pkr.hcl.
#
#   ami=$(aws ssm get-parameter --query Parameter.Value --output text \
#       --name /aws/service/canonical/ubuntu/eks/24.04/1.34/stable/current/arm64/hvm/ebs-gp3/ami-id)
#   packer build -var-file=image/packer/ubuntu-eks-arm64.pkrvars.hcl -var region=REGION -var source_ami="$ami" -var bundle=nodeclaimd-image.tar.gz image/packer

instance_type    = "m7g.large"
ssh_username     = "ubuntu"
name             = "nodeclaimd-ubuntu-eks-arm64"
root_device_name = "/dev/sda1"
