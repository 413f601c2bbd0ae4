"""What a sidecar says of a saved file: JSON for whoever looks at it years later, when the URL may name
something else (S21). Nothing in it is a secret: URLs are redacted, cookies masked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from protocols.headers import without_cookie
from protocols.instant import instant
from protocols.location import JsonValue
from protocols.options import Validators
from resolver.disk.sidecar import FORMAT
from resolver.retrieval.checksum import Checksum
from resolver.retrieval.response import Saved
from resolver.version import VERSION


def meta_octets(saved: Saved, addresses: Sequence[str | None], proved: Checksum | None) -> bytes:
    """All of it, as it is written. `proved` is a digest that was compared besides."""
    return (json.dumps(_record(saved, addresses, proved), indent=2) + "\n").encode("ascii")


def etag_told(octets: bytes | None, url: str, held: Validators) -> str | None:
    """The entity tag of the file that is there, as its sidecar has it; None where that is of another URL, or
    the file is not as it was saved."""
    try:
        record = json.loads(octets or b"")
    except (ValueError, RecursionError):
        return None
    match record:
        case {
            "url": str(saved),
            "bytes": int(size),
            "modified": str() | None as modified,
            "validators": {"etag": str(etag)},
        } if (saved, size) == (url, held.size):
            same = modified is None or modified == instant(held.modified)
            return etag if same and etag.isascii() and etag.isprintable() else None
    return None


def _record(saved: Saved, addresses: Sequence[str | None], proved: Checksum | None) -> dict[str, JsonValue]:
    """`addresses` are those of `chain` and then of `final_url`, of the last try; of the proxy, where it went
    through one. `size` among the validators is what was announced, `bytes` what the file has."""
    algorithm, _, digest = (saved.digest or "").partition(":")
    digests: dict[str, JsonValue] = {algorithm: digest}
    if proved is not None:
        digests[proved.algorithm] = proved.digest
    return {
        "format": FORMAT,
        "version": VERSION,
        "url": saved.requested_url,
        "final_url": saved.url,
        "chain": saved.chain,
        "addresses": [*addresses],
        "proxy": saved.proxy,
        "mirror": saved.mirror,
        "retrieved": instant(saved.retrieved),
        "bytes": saved.bytes,
        "digests": digests,
        "verified": list(saved.verified),
        "attempts": saved.attempts,
        "resumed_from": saved.resumed_from,
        "kind": saved.kind.value,
        "media_type": saved.media_type,
        "charset": saved.charset,
        "modified": instant(saved.modified),
        "validators": {"size": saved.size, "modified": instant(saved.modified), "etag": saved.etag},
        "title": saved.title,
        "headers": [[name, without_cookie(name, value)] for name, value in saved.meta],
        "extra": None if saved.extra is None else dict(saved.extra),
        "findings": [finding.as_json() for finding in saved.findings],
    }
