"""Who may talk to whom: peers of a swarm that has an authority show each other its certificates, over TLS 1.3.

A directory holds what one peer needs (`peerd tls` makes it, see `peerd/certificates.py`):

    swarm.pem   the certificate of the swarm's authority; more than one while an authority is being replaced
    peer.pem    this peer's certificate, signed by it
    peer.key    its private key

Both sides of a connection show a certificate, and either one closes on a stranger's. What a certificate proves is
membership, so names in it are not compared with addresses: peers have addresses that change, and any member may stand
at any of them. A member can still drop what it should forward; that is a limit of the design, stated there.

A stranger that dials is turned away by TLS itself, before there is a connection that could be counted.
"""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

AUTHORITY_FILE: Final = "swarm.pem"
CERTIFICATE_FILE: Final = "peer.pem"
KEY_FILE: Final = "peer.key"


class Tls(NamedTuple):
    """How to accept and how to dial."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def load(directory: Path) -> Tls:
    """What stands in the directory. `ValueError` with one clear line if it is of no use."""
    try:
        return Tls(_context(directory, ssl.PROTOCOL_TLS_SERVER), _context(directory, ssl.PROTOCOL_TLS_CLIENT))
    except ssl.SSLError as error:  # which is an OSError, too
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise ValueError(f"{directory}: its certificates are of no use ({reason}); 'peerd tls' makes others") from None
    except OSError as error:
        name = Path(error.filename).name if error.filename else AUTHORITY_FILE
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{directory}: {name}: {reason}; 'peerd tls issue' makes such a directory") from None


def _context(directory: Path, side: "ssl._SSLMethod") -> ssl.SSLContext:
    for name in (AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE):
        (directory / name).open("rb").close()  # the errors of the calls below do not say which file they are about
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(directory / AUTHORITY_FILE)
    context.load_cert_chain(directory / CERTIFICATE_FILE, directory / KEY_FILE)
    return context


def fault(at: str, error: ssl.SSLError) -> str:
    """Why a dial came to nothing, in one line that says what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{at} shows a certificate that this swarm's authority does not vouch for ({error.verify_message})"
    if error.reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"):
        return f"{at} does not speak TLS: start it with --tls, or this peer without"
    return f"{at}: TLS failed ({(error.reason or str(error)).lower().replace('_', ' ')})"
