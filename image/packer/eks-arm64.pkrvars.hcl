# The EKS AL2023 AMI for arm64: values of node.pkr.hcl.
#
#   ami=$(aws ssm get-parameter --query Parameter.Value --output text \
#       --name /aws/service/eks/optimized-ami/1.34/amazon-linux-2023/arm64/standard/recommended/image_id)
#   packer build -var-file=image/packer/eks-arm64.pkrvars.hcl -var region=REGION -var source_ami="$ami" -var bundle=nodeclaimd-image.tar.gz image/packer

instance_type = "m7g.large"
ssh_username  = "ec2-user"
name          = "nodeclaimd-eks-arm64"
