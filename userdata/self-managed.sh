#!/bin/bash
# A shell script runs in cloud-init's last stage, after the first attempt of nodeclaimd-bootstrap.service: hence the restart at the end.
set -euo pipefail
install -d -m 0755 /etc/nodeclaimd/conf.d
cat >/etc/nodeclaimd/conf.d/10-cluster.yaml.new <<'EOF'
apiVersion: nodeclaimd.io/v1alpha1
kind: AgentConfig
spec:
  cluster:
    name: demo
    apiServerEndpoint: https://0123456789ABCDEF0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com
    certificateAuthority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURCVENDQWUyZ0F3SUJBZ0lJWFR3cUdRajM1dFV3RFFZSktvWklodmNOQVFFTEJRQXdGVEVUTUJFR0ExVUUKQXd3S2EzVmlaWEp1WlhSbGN6QWVGdzB5TkRBeE1UVXdPVE13TURCYUZ3MDBOREF4TVRBd09UTTFNREJhTUJVeApFekFSQmdOVkJBTU1DbXQxWW1WeWJtVjBaWE13Z2dFaU1BMEdDU3FHU0liM0RRRUJBUVVBQTRJQkR3QXdnZ0VLCkFvSUJBUUNtcGw1OWlPRW1qRnVrQ2xKOHhxVGRIeC9aWVBxUUxIbktnZnZZNnM2OUoyQ1BHbXFQK1ZaK2Q2MDQKZlZMR2JsQ2NtVjFmcmF0V21KdnY0c1lFYllrdGRlNHR2QUVOV0c4WDF0Y3ZsOWl5LzdYNlR5Tk9PRU10SlBGcApHUWEzYU9mUk93MmtubWcwS1dET0JpRG4xbElnUk5YNDFiaW9JMlUySG5wcUdUcXlkVUtEcHBUU01YSmtDL0lLCkMwWHJDWExwNU56amZDVE1abURqVk5ycWVKcXYrb2Zzb0E4R29wK1drZVl1bDYvVm0yWXJUOXdwNThYY2VSZHkKUU1Lb0RHWkhOWUxleExjT3gxZHhGYi9XQ2xZS2ZUeTlSSWp4Z2NURVlMTGtzZ1ZzWERsVExIeU5qUFNnbGlYUQpkOVc4ZEJXbHl6eER6aEcxUVBCSjBRMGFNL3A1QWdNQkFBR2pXVEJYTUE4R0ExVWRFd0VCL3dRRk1BTUJBZjh3CkRnWURWUjBQQVFIL0JBUURBZ0trTUIwR0ExVWREZ1FXQkJRaGFkaGFoR3YzY3ZoUFU0c2ZVUG01WUtvUVZUQVYKQmdOVkhSRUVEakFNZ2dwcmRXSmxjbTVsZEdWek1BMEdDU3FHU0liM0RRRUJDd1VBQTRJQkFRQTVyQ25lNHN3VAp1emovMXBtTmhjV1ZTYnJzY29iVUtHbDZWNi9CVUVJSTVXMWZITStIem1HSjlZSndjNkNKbnJuV2V5dG9yelNwClBmS2hUTkdzQkNzYVRIWWs4Q1dabFZlWGE1ellVOHBwNUl3K3czQk1ndGtpM2JhamtXZnlyMmM0Z1Rqanl5ZjAKdGRYa0VQaDV3MWhxTWJUbVcyWDFOY0lPQzZLYXRsNzJ4SDVoZFdlUCtqVUh1RUJOOFZKdDUyTEZ2SCtaN2ZHcwpvTmsreG41dkt6SmZlaThCQ3RLYTJTSnU0UW92VEVhMzN0Vm5tR1RGYXgraVNsdVcyTjQvZlQzOUpPYjhoUUpaCnlSUXBsY25qWjAzUWszWVR0d0x4bmMyWWhEM0tWN01uenhsVVBZVXJaVUJRSGtjbG5tWTF0emJUN3B1enB3cjgKaFNlTzU1MWRnTUU5Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K
    cidr: 10.100.0.0/16
  node:
    labels:
      example.com/group: batch
    taints:
    - key: example.com/batch
      value: "true"
      effect: NoSchedule
  reservation:
    policy: karpenter
  kubelet:
    config:
      imageGCHighThresholdPercent: 80
      imageGCLowThresholdPercent: 70
EOF
mv /etc/nodeclaimd/conf.d/10-cluster.yaml.new /etc/nodeclaimd/conf.d/10-cluster.yaml
systemctl restart --no-block nodeclaimd-bootstrap.service
