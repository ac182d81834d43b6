"""An issuer of users' tokens, for a sign-in of your own. Needs `kith-client[issuer]`."""

import base64
import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_SEED = b"\x04\x22\x04\x20"


class Issuer:
    """Signs tokens that a node takes: JWTs with a decimal user id in `sub`.

    A node trusts an issuer by `[[auth.issuers]]` in its `kith.toml`, with the text of `jwks` in a file.
    """

    def __init__(
        self, key: Ed25519PrivateKey, issuer: str, *, audience: str = "kith", lifetime: float = 600.0
    ) -> None:
        """Signs by a key.

        Args:
            key: the private key. Who has it can be every user.
            issuer: the claim `iss`, as the node has it.
            audience: the claim `aud`.
            lifetime: the seconds of a token. Keep it to minutes: a token cannot be revoked.
        """
        self._key, self._claims, self._lifetime = key, {"iss": issuer, "aud": audience}, lifetime
        self._jwk = dict(jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True))
        self._jwk |= {"kid": self._jwk["x"][:8], "use": "sig"}

    @classmethod
    def read(
        cls, file: str | Path, issuer: str, *, audience: str = "kith", lifetime: float = 600.0
    ) -> "Issuer":
        """Reads an Ed25519 key, such as of `openssl genpkey -algorithm ed25519`."""
        key = load_pem_private_key(Path(file).read_bytes(), None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"{file} has no Ed25519 key")
        return cls(key, issuer, audience=audience, lifetime=lifetime)

    @classmethod
    def trial(cls, folder: str | Path = "trial") -> "Issuer":
        """Reads the folder that `kith token make` has written. For trials alone."""
        # Files of older versions also have the public key (RFC 5958), which `cryptography` does not read.
        lines = (Path(folder) / "signing.key").read_text("ascii").splitlines()
        seed = base64.b64decode("".join(lines[1:-1])).partition(_SEED)[2][:32]
        return cls(Ed25519PrivateKey.from_private_bytes(seed), "kith-token-make")

    def token(self, user: int, *, lifetime: float | None = None) -> str:
        """Returns a token of a user that you have authenticated."""
        now = int(time.time())
        end = now + int(self._lifetime if lifetime is None else lifetime)
        claims = {**self._claims, "sub": str(user), "iat": now, "exp": end}
        return jwt.encode(claims, self._key, "EdDSA", {"kid": self._jwk["kid"]})

    def jwks(self) -> str:
        """Returns the public key as the text of a `jwks_file`."""
        return json.dumps({"keys": [self._jwk]})
