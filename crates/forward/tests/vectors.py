"""Writes vectors.tsv: signatures of Standard Webhooks, by Python's standard library alone."""

import base64
import hashlib
import hmac

SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]
CASES = [
    (SECRETS[:1], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, '{"test": 2432232314}'),
    (SECRETS[1:], "5f0c.file.12.3", 1764404570, '{"type":"user.changed","data":{"key":{"userId":"7"},"record":null}}'),
    (SECRETS, "5f0c.shard-1.9.0", 1764404571, '{"type":"messages.changed","data":{"key":{"conversationId":"g9"}}}'),
    (SECRETS[:1], "1.a.0.0", 0, ""),
    (SECRETS[1:], "1.a.0.1", 4102444800, '{"nickName":"Zoë 🦊"}'),
]


def sign(secret, identity, timestamp, body):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{identity}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


with open(__file__.replace("vectors.py", "vectors.tsv"), "w", encoding="utf-8") as file:
    file.write("secrets\tid\ttimestamp\tbody\tsignatures\n")
    for secrets, identity, timestamp, body in CASES:
        signatures = " ".join(sign(secret, identity, timestamp, body) for secret in secrets)
        file.write("\t".join([" ".join(secrets), identity, str(timestamp), body, signatures]) + "\n")
