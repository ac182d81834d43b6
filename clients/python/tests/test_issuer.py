"""The issuer of tokens."""

from __future__ import annotations

import json
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from kith_client.issuer import Issuer


def written(folder: Path, key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> Path:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "signing.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return folder / "signing.key"


def test_token_is_verified_by_the_public_key(tmp_path: Path) -> None:
    file = written(tmp_path, ed25519.Ed25519PrivateKey.generate())
    issuer = Issuer.read(file, "https://id.example/", lifetime=60)
    token = issuer.token(7)
    (public,) = jwt.PyJWKSet.from_json(issuer.jwks()).keys
    claims = jwt.decode(token, public.key, ["EdDSA"], audience="kith", issuer="https://id.example/")
    assert (claims["sub"], claims["exp"] - claims["iat"]) == ("7", 60)
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "kid": public.key_id, "typ": "JWT"}


def test_lifetime_of_one_token() -> None:
    issuer = Issuer(ed25519.Ed25519PrivateKey.generate(), "https://id.example/")
    claims = jwt.decode(issuer.token(7, lifetime=5), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == 5


def test_public_keys_have_no_private_part() -> None:
    issuer = Issuer(ed25519.Ed25519PrivateKey.generate(), "https://id.example/")
    (key,) = json.loads(issuer.jwks())["keys"]
    assert set(key) == {"kty", "crv", "x", "kid", "use"}


def test_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(ValueError, match="no Ed25519 key"):
        Issuer.read(file, "https://id.example/")
