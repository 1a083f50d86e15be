"""The reference for `nodeclaimd token`: the URL that botocore presigns for an EKS cluster, at a given clock.

Reads a JSON object from standard input: access_key, secret_key, session_token, region, cluster, date (as X-Amz-Date),
expires. Prints the URL. It asks nobody: presigning is arithmetic.
"""
import datetime
import json
import sys

import botocore.auth
import botocore.session

CLUSTER_HEADER = "x-k8s-aws-id"


def main() -> None:
    given = json.load(sys.stdin)
    when = datetime.datetime.strptime(given["date"], "%Y%m%dT%H%M%SZ")
    botocore.auth.get_current_datetime = lambda *_unused, **_more: when
    session = botocore.session.get_session()
    session.set_credentials(given["access_key"], given["secret_key"], given["session_token"])
    sts = session.create_client("sts", region_name=given["region"])

    def sign_cluster(request, **_unused):
        request.headers[CLUSTER_HEADER] = given["cluster"]

    sts.meta.events.register("before-sign.sts.GetCallerIdentity", sign_cluster)
    print(sts.generate_presigned_url("get_caller_identity", ExpiresIn=given["expires"], HttpMethod="GET"))


main()
