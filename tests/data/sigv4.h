/* Made by make-sigv4-vectors with botocore 1.44.5: do not edit. */
static const struct sigv4_vector sigv4_vectors[] = {
    {
        .name = "the token of EKS",
        .credentials = {(char *)(uintptr_t) "AKIDEXAMPLE",
                        (char *)(uintptr_t) "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                        (char *)(uintptr_t) "FwoGZXIvYXdzE/+==", 0},
        .query = {"Action", "GetCallerIdentity", "Version", "2011-06-15", NULL},
        .headers = {"x-k8s-aws-id", "my-cluster", NULL},
        .method = "GET",
        .host = "sts.us-west-2.amazonaws.com",
        .body = "",
        .region = "us-west-2",
        .service = "sts",
        .time_sec = 1704164645,
        .expires_sec = 60,
        .presign = 1,
        .canonical = "GET\n/"
                     "\nAction=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-"
                     "SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20240102%2Fus-west-2%2Fsts%2Faws4_"
                     "request&X-Amz-Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-Security-Token="
                     "FwoGZXIvYXdzE%2F%2B%3D%3D&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\nhost:sts."
                     "us-west-2.amazonaws.com\nx-k8s-aws-id:my-cluster\n\nhost;x-k8s-aws-"
                     "id\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .to_sign = "AWS4-HMAC-SHA256\n20240102T030405Z\n20240102/us-west-2/sts/"
                   "aws4_request\nd919cdb023aced058be0ec2fe64279377b72bca3ec388aa6bad5bd5883769b3d",
        .signature = "4a3d07195eaadd757a7ee90b2858da83d8abaf54fff1e88004922e438d92ced2",
        .whole = "https://sts.us-west-2.amazonaws.com/"
                 "?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-"
                 "Amz-Credential=AKIDEXAMPLE%2F20240102%2Fus-west-2%2Fsts%2Faws4_request&X-Amz-"
                 "Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-"
                 "Amz-Security-Token=FwoGZXIvYXdzE%2F%2B%3D%3D&X-Amz-Signature="
                 "4a3d07195eaadd757a7ee90b2858da83d8abaf54fff1e88004922e438d92ced2",
    },
    {
        .name = "without a session token",
        .credentials = {(char *)(uintptr_t) "AKIDEXAMPLE", (char *)(uintptr_t) "secret",
                        (char *)(uintptr_t)NULL, 0},
        .query = {"Action", "GetCallerIdentity", "Version", "2011-06-15", NULL},
        .headers = {"x-k8s-aws-id", "c", NULL},
        .method = "GET",
        .host = "sts.us-east-1.amazonaws.com",
        .body = "",
        .region = "us-east-1",
        .service = "sts",
        .time_sec = 1709251199,
        .expires_sec = 60,
        .presign = 1,
        .canonical =
            "GET\n/"
            "\nAction=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-"
            "Credential=AKIDEXAMPLE%2F20240229%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Date="
            "20240229T235959Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\nhost:sts."
            "us-east-1.amazonaws.com\nx-k8s-aws-id:c\n\nhost;x-k8s-aws-"
            "id\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .to_sign = "AWS4-HMAC-SHA256\n20240229T235959Z\n20240229/us-east-1/sts/"
                   "aws4_request\n66cf2759d25d764cdefee98fb2d9dd0361700e811fd72b07fda7d0e6c15dc386",
        .signature = "a8594a706310ca239129177892059d6ae99930b797e05111c83107794d073c4a",
        .whole = "https://sts.us-east-1.amazonaws.com/"
                 "?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-"
                 "Amz-Credential=AKIDEXAMPLE%2F20240229%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-"
                 "Date=20240229T235959Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-"
                 "Amz-Signature=a8594a706310ca239129177892059d6ae99930b797e05111c83107794d073c4a",
    },
    {
        .name = "China",
        .credentials = {(char *)(uintptr_t) "AKIDEXAMPLE", (char *)(uintptr_t) "secret",
                        (char *)(uintptr_t) "tok en", 0},
        .query = {"Action", "GetCallerIdentity", "Version", "2011-06-15", NULL},
        .headers = {"x-k8s-aws-id", "cluster-in-china", NULL},
        .method = "GET",
        .host = "sts.cn-northwest-1.amazonaws.com.cn",
        .body = "",
        .region = "cn-northwest-1",
        .service = "sts",
        .time_sec = 1703980800,
        .expires_sec = 60,
        .presign = 1,
        .canonical = "GET\n/"
                     "\nAction=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-"
                     "SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20231231%2Fcn-northwest-1%2Fsts%2Faws4_"
                     "request&X-Amz-Date=20231231T000000Z&X-Amz-Expires=60&X-Amz-Security-Token="
                     "tok%20en&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\nhost:sts.cn-northwest-1."
                     "amazonaws.com.cn\nx-k8s-aws-id:cluster-in-china\n\nhost;x-k8s-aws-"
                     "id\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .to_sign = "AWS4-HMAC-SHA256\n20231231T000000Z\n20231231/cn-northwest-1/sts/"
                   "aws4_request\n00e71829afcb02951ecbc61d9278e25a639a84fb9c1fcc64754f97eb501e754c",
        .signature = "31dfa65794df7645aacd62d0c7d143f8d962ce25d435d331840132c49157866c",
        .whole = "https://sts.cn-northwest-1.amazonaws.com.cn/"
                 "?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-"
                 "Amz-Credential=AKIDEXAMPLE%2F20231231%2Fcn-northwest-1%2Fsts%2Faws4_request&X-"
                 "Amz-Date=20231231T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-"
                 "id&X-Amz-Security-Token=tok%20en&X-Amz-Signature="
                 "31dfa65794df7645aacd62d0c7d143f8d962ce25d435d331840132c49157866c",
    },
    {
        .name = "names and values that must be encoded",
        .credentials = {(char *)(uintptr_t) "AKIDEXAMPLE",
                        (char *)(uintptr_t) "s/+=", (char *)(uintptr_t) "a+b/c=d e~f", 0},
        .query = {"b", "2", "a", "x y+z/~-_.", "a b", "\303\251\342\202\254", "A", "1", "empty", "",
                  NULL},
        .headers = {"x-k8s-aws-id", "  two   words  ", "x-amz-meta", "m", NULL},
        .method = "GET",
        .host = "sts.us-gov-west-1.amazonaws.com",
        .body = "",
        .region = "us-gov-west-1",
        .service = "sts",
        .time_sec = 1893459723,
        .expires_sec = 900,
        .presign = 1,
        .canonical =
            "GET\n/"
            "\nA=1&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20300101%2Fus-"
            "gov-west-1%2Fsts%2Faws4_request&X-Amz-Date=20300101T010203Z&X-Amz-Expires=900&X-Amz-"
            "Security-Token=a%2Bb%2Fc%3Dd%20e~f&X-Amz-SignedHeaders=host%3Bx-amz-meta%3Bx-k8s-aws-"
            "id&a=x%20y%2Bz%2F~-_.&a%20b=%C3%A9%E2%82%AC&b=2&empty=\nhost:sts.us-gov-west-1."
            "amazonaws.com\nx-amz-meta:m\nx-k8s-aws-id:two "
            "words\n\nhost;x-amz-meta;x-k8s-aws-"
            "id\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .to_sign = "AWS4-HMAC-SHA256\n20300101T010203Z\n20300101/us-gov-west-1/sts/"
                   "aws4_request\n506d044fa7165821ad8a7a26b47263844c3822db30d8ec805d6e28d16a0db4ce",
        .signature = "f717d12519065b5e549b8aba5354e2ec3b8fd4edf2121fe46fa407bcef2de0f5",
        .whole = "https://sts.us-gov-west-1.amazonaws.com/"
                 "?b=2&a=x%20y%2Bz%2F~-_.&a%20b=%C3%A9%E2%82%AC&A=1&empty=&X-Amz-Algorithm=AWS4-"
                 "HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20300101%2Fus-gov-west-1%2Fsts%2Faws4_"
                 "request&X-Amz-Date=20300101T010203Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host%"
                 "3Bx-amz-meta%3Bx-k8s-aws-id&X-Amz-Security-Token=a%2Bb%2Fc%3Dd%20e~f&X-Amz-"
                 "Signature=f717d12519065b5e549b8aba5354e2ec3b8fd4edf2121fe46fa407bcef2de0f5",
    },
    {
        .name = "a question to EC2",
        .credentials = {(char *)(uintptr_t) "AKIDEXAMPLE",
                        (char *)(uintptr_t) "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                        (char *)(uintptr_t) "FwoGZXIvYXdzE/+==", 0},
        .query = {NULL},
        .headers = {"content-type", "application/x-www-form-urlencoded; charset=utf-8", NULL},
        .method = "POST",
        .host = "ec2.eu-central-1.amazonaws.com",
        .body = "Action=DescribeInstances&InstanceId.1=i-0123456789abcdef0&Version=2016-11-15",
        .region = "eu-central-1",
        .service = "ec2",
        .time_sec = 1704164645,
        .expires_sec = 0,
        .presign = 0,
        .canonical = "POST\n/\n\ncontent-type:application/x-www-form-urlencoded; "
                     "charset=utf-8\nhost:ec2.eu-central-1.amazonaws.com\nx-amz-date:"
                     "20240102T030405Z\nx-amz-security-token:FwoGZXIvYXdzE/"
                     "+==\n\ncontent-type;host;x-amz-date;x-amz-security-"
                     "token\ndbe0f63c8488988af77dcd78cd013ecbaf384cb3365341ee7da477cfdf0b717e",
        .to_sign = "AWS4-HMAC-SHA256\n20240102T030405Z\n20240102/eu-central-1/ec2/"
                   "aws4_request\nc176c1eb775fd7aae0c6069efcf08b6c1131eeb4a0646a026b9daddf57b9db4c",
        .signature = "c38ac03848e209e1e02910d47e8618e2d2710f85e68888559c91906944408399",
        .whole = "Authorization: AWS4-HMAC-SHA256 "
                 "Credential=AKIDEXAMPLE/20240102/eu-central-1/ec2/aws4_request, "
                 "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "
                 "Signature=c38ac03848e209e1e02910d47e8618e2d2710f85e68888559c91906944408399",
    },
    {
        .name = "a header form without a session token",
        .credentials = {(char *)(uintptr_t) "A", (char *)(uintptr_t) "b", (char *)(uintptr_t)NULL,
                        0},
        .query = {"Version", "2016-11-15", "a", "2", "Action", "DescribeInstanceTypes", "a", "10",
                  "a-b", "", NULL},
        .headers = {NULL},
        .method = "GET",
        .host = "ec2.us-isob-east-1.sc2s.sgov.gov",
        .body = "",
        .region = "us-isob-east-1",
        .service = "ec2",
        .time_sec = 86400,
        .expires_sec = 0,
        .presign = 0,
        .canonical = "GET\n/"
                     "\nAction=DescribeInstanceTypes&Version=2016-11-15&a=10&a=2&a-b=\nhost:ec2.us-"
                     "isob-east-1.sc2s.sgov.gov\nx-amz-date:19700102T000000Z\n\nhost;x-amz-"
                     "date\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        .to_sign = "AWS4-HMAC-SHA256\n19700102T000000Z\n19700102/us-isob-east-1/ec2/"
                   "aws4_request\n8f05a26869ed96a418cebf4223001ab5a85809e63c1dee7c82b77357f871dc58",
        .signature = "7921b62758d780dc773f8dd8853ea99c42e9c4c799f0903ca54d3d4de87d0b4a",
        .whole =
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=A/19700102/us-isob-east-1/ec2/aws4_request, SignedHeaders=host;x-amz-date, "
            "Signature=7921b62758d780dc773f8dd8853ea99c42e9c4c799f0903ca54d3d4de87d0b4a",
    },
};
