"""The console at `/`: a page for people that subscribes, publishes, and shows the peer and its overlay.

The page is one file without any of the peer's data. It asks the API for that as every client does, so it needs no more
rights than those, and it can be had without a token: a browser that opens an address cannot send one. It asks its
reader for the token and sends it with each call. (Deliveries therefore come as a stream that is fetched; a browser's
WebSocket could not carry the token.)

Only its own script runs in it, named by its hash in the content security policy, and it talks to its own peer only.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Final

from aiohttp import web

_PAGE: Final = files(__package__).joinpath("console.html").read_text("utf-8")


def _script_hash(page: str) -> str:
    script = page.partition("<script>")[2].partition("</script>")[0]
    return b64encode(sha256(script.encode()).digest()).decode()


_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_script_hash(_PAGE)}'; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


async def show(request: web.Request) -> web.Response:
    return web.Response(text=_PAGE, content_type="text/html", headers=_HEADERS)
