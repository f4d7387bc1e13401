"""Making certificates: a swarm's authority, and what each of its peers shows to the others (`peerd/net/tls.py`).

    authority directory   swarm.pem, swarm.key    kept by whoever admits peers; the key goes to nobody
    a peer's directory    swarm.pem, peer.pem, peer.key

Keys are on the curve P-256, which every TLS 1.3 speaks. An authority signs peers only, no further authorities.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peerd.net.tls import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE

AUTHORITY_KEY_FILE: Final = "swarm.key"
AUTHORITY_DAYS: Final = 3650
PEER_DAYS: Final = 397
"""Validity in days. Our choice: ten years, and what browsers accept at the most of a site."""
BACKDATED: Final = timedelta(minutes=5)
"""The clock of the peer that checks may be behind."""


def make_authority(directory: Path, name: str) -> None:
    """Found the authority of a swarm. `ValueError` if there is one already."""
    if (directory / AUTHORITY_KEY_FILE).exists():
        raise ValueError(f"{directory} holds an authority already; peers that trust it would not trust a new one")
    key = generate_private_key(SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"peerd swarm {name}"[:64])])
    builder = _builder(subject, subject, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    directory.mkdir(parents=True, exist_ok=True)
    _write_key(directory / AUTHORITY_KEY_FILE, key)
    (directory / AUTHORITY_FILE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def issue(authority: Path, directory: Path, name: str, days: int = PEER_DAYS) -> None:
    """Make the directory of a peer. `ValueError` if there is a peer's already, or no authority."""
    if (directory / KEY_FILE).exists():
        raise ValueError(f"{directory} holds a peer's key already; name another directory")
    issuer, issuer_key = _load_authority(authority)
    key = generate_private_key(SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    builder = _builder(subject, issuer.subject, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = builder.add_extension(both, critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    certificate = builder.sign(issuer_key, hashes.SHA256())
    directory.mkdir(parents=True, exist_ok=True)
    _write_key(directory / KEY_FILE, key)
    (directory / CERTIFICATE_FILE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / AUTHORITY_FILE).write_bytes((authority / AUTHORITY_FILE).read_bytes())


def expires(directory: Path) -> datetime:
    """Until when the peer's certificate is valid."""
    return x509.load_pem_x509_certificate((directory / CERTIFICATE_FILE).read_bytes()).not_valid_after_utc


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _load_authority(directory: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    try:
        key = serialization.load_pem_private_key((directory / AUTHORITY_KEY_FILE).read_bytes(), None)
        certificate = x509.load_pem_x509_certificate((directory / AUTHORITY_FILE).read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{directory} holds no authority; 'peerd tls new {directory}' makes one") from None
    except ValueError as error:
        raise ValueError(f"{directory}: {error}") from None
    if not isinstance(key, EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        raise ValueError(f"{directory}: {AUTHORITY_KEY_FILE} is not the key of {AUTHORITY_FILE}")
    return certificate, key


def _write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    """For its owner's eyes only, from the first byte on; never over another one."""
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
