"""A certificate for localhost that a private authority signed, as companies run them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def private_authority(folder: Path) -> Path:
    """Write the authority as `ca.pem`; return the file of the certificate and its key."""
    key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _builder("House CA", key).add_extension(x509.BasicConstraints(True, None), True)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = authority.add_extension(usage, True).sign(key, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    server = _builder("localhost", server_key, "House CA").add_extension(names, False)
    server = server.add_extension(of_authority, False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    secret = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(server.public_bytes(pem) + secret)
    return folder / "server.pem"


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str | None = None
) -> x509.CertificateBuilder:
    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(named(name)).public_key(key.public_key())
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    days = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(9))
    named_issuer = days.issuer_name(named(issuer or name)).serial_number(1 if issuer else 2)
    return named_issuer.add_extension(identity, False)
