# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Short words for what the tests of `moorage serve` ask by boto3, in the bucket `bucket`."""

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from .bucket import ACCESS_KEY, SECRET_KEY


def code(error):
    return error.value.response["Error"]["Code"], error.value.response["ResponseMetadata"]["HTTPStatusCode"]


def refused(call, **arguments):
    """The S3 error code and status that a call meets."""
    with pytest.raises(ClientError) as error:
        call(Bucket="bucket", **arguments)
    return code(error)


def put(client, key, body=b"content", **more):
    return client.put_object(Bucket="bucket", Key=key, Body=body, **more)["ETag"]


def get(client, key, **more):
    return client.get_object(Bucket="bucket", Key=key, **more)["Body"].read()


def keys(client, **more):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", **more)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def signing_client(server):
    """A client whose links are signed with version 4; boto3's own default for links is still version 2."""
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
