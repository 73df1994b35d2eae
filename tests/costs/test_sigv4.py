"""Signatures of AWS, held against the examples that AWS has published."""

from datetime import UTC, datetime

import pytest

from dragoman_costs.accounts.sigv4 import AwsKey, Signer, encode_path, encode_query

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
S3 = Signer(AwsKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "us-east-1")
MAY_2013 = datetime(2013, 5, 24, tzinfo=UTC)
HOST = "https://examplebucket.s3.amazonaws.com"
# The test suite of Signature Version 4.
SUITE = Signer(AwsKey("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), "us-east-1", "service")
AUGUST_2015 = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
SUITE_HOST = "https://example.amazonaws.com"


@pytest.mark.parametrize(
    ("method", "url", "headers", "payload", "signature"),
    [
        (
            "GET", f"{HOST}/test.txt", {"Range": "bytes=0-9"}, None,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", f"{HOST}/{encode_path('test$file.text')}",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET", f"{HOST}/?{encode_query({'lifecycle': ''})}", {}, None,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET", f"{HOST}/?{encode_query({'prefix': 'J', 'max-keys': '2'})}", {}, None,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_the_examples_of_s3_get_their_signatures(
    method: str, url: str, headers: dict[str, str], payload: str | None, signature: str
) -> None:
    more = {"payload_sha256": payload} if payload is not None else {}

    signed = S3.sign(method, url, headers, now=MAY_2013, **more)

    assert signed["authorization"].rpartition("Signature=")[2] == signature


@pytest.mark.parametrize(
    ("method", "target", "signature"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            f"/?{encode_query({'Param2': 'value2', 'Param1': 'value1'})}",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        ("GET", f"/{encode_path('ሴ')}", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    ],
)
def test_the_suite_of_the_algorithm_gets_its_signatures(method: str, target: str, signature: str) -> None:
    signed = SUITE.sign(method, f"{SUITE_HOST}{target}", {}, now=AUGUST_2015)

    assert signed["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )


def test_a_temporary_key_sends_its_token_and_shows_no_secret() -> None:
    key = AwsKey("AKID", "hidden", "token")
    signed = Signer(key, "us-east-1").sign("GET", f"{HOST}/", {}, now=MAY_2013)

    assert signed["x-amz-security-token"] == "token"
    assert "x-amz-security-token" in signed["authorization"]
    assert "hidden" not in f"{key!r}{signed}"
