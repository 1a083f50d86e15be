# Ubuntu's EKS image for amd64: values of node.pkr.hcl.
#
#   ami=$(aws ssm get-parameter --query Parameter.Value --output text \
#       --name /aws/service/canonical/ubuntu/eks/24.04/1.34/stable/current/amd64/hvm/ebs-gp3/ami-id)
#   packer build -var-file=image/packer/ubuntu-eks.pkrvars.hcl -var region=REGION -var source_ami="$ami" -var bundle=nodeclaimd-image.tar.gz image/packer

instance_type    = "m7i.large"
ssh_username     = "ubuntu"
name             = "nodeclaimd-ubuntu-eks"
root_device_name = "/dev/sda1"
