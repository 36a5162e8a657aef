"""Certificates of a test's own authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple


class Files(NamedTuple):
    """PEM files: the authority's certificate, and the server's chain with its key."""

    authority: Path
    server: Path


def make(folder: Path, names: list[str]) -> Files:
    """A certificate for ``names``, valid today."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def build(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(named(subject))
            .issuer_name(named(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )

    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    key_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    authority = (
        build("test authority", "test authority", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(key_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        build("test server", "test authority", server_key)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, encryption_algorithm=serialization.NoEncryption()
    )
    files = Files(folder / "authority.pem", folder / "server.pem")
    files.authority.write_bytes(authority.public_bytes(pem))
    files.server.write_bytes(server.public_bytes(pem) + key)
    return files
