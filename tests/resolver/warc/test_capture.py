"""The archived records of one HTTP request and its answer: masking of cookies and passwords."""

from __future__ import annotations

import errno
from contextlib import closing
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from protocols.errors import LocalError
from resolver.files import archive
from resolver.files.archive import ByteSpool
from resolver.warc.capture import HttpCapture
from resolver.warc.http import mask_heads

COOKIE = b"Set-Cookie: a=sekret; Path=/\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\n" + COOKIE + b"Content-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "response"),
    [
        (b"GET", WHOLE),
        (b"HEAD", WHOLE),
        (b"GET", b"HTTP/1.1 103 A\r\n" + COOKIE + b"\r\nHTTP/1.1 102 B\r\n" + COOKIE + b"\r\n" + WHOLE),
        (b"GET", b"HTTP/1.1 200 OK\r\n" + COOKIE + b"X: cut"),
        (b"GET", WHOLE.replace(b"\r", b"")),
        (b"GET", WHOLE.replace(b"Set-Cookie:", b"SET-COOKIE2 :")),
    ],
)
@pytest.mark.parametrize("keeps", [False, True])
def test_http_capture_masks_cookies_unless_kept(
    method: bytes, response: bytes, keeps: bool, tmp_path: Path
) -> None:
    spool = partial(ByteSpool, str(tmp_path))
    with closing(spool()) as answer, closing(HttpCapture("way", spool, answer)) as exchange:
        exchange.request.write(method + b" / HTTP/1.1\r\nHost: h.example\r\n\r\n")
        answer.write(response)
        facts = exchange.make_records(lambda octets: octets, is_whole=True, keeps_cookies=keeps)
        block = b"" if facts.object is None else b"".join(facts.object.block.pieces())
    recorded = block + b"".join(octets for _, octets in facts.events)
    assert recorded.count(b"sekret") == (response.count(b"sekret") if keeps else 0)
    assert (facts.masked == []) is keeps


class FullFile(BytesIO):
    """A temporary file on a full disk."""

    def write(self, octets: object) -> int:
        raise OSError(errno.ENOSPC, "no space")


def test_spool_after_failed_move_to_disk_has_all_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "TemporaryFile", lambda **_: FullFile())
    with closing(ByteSpool(str(tmp_path))) as spool:
        spool.write(b"a" * archive.IN_MEMORY)
        with pytest.raises(LocalError):
            spool.write(b"b")
        assert spool.size == archive.IN_MEMORY
        assert b"".join(spool.pieces()) == b"a" * archive.IN_MEMORY


# HTTP heads for an archive, without secrets.


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"http://u:sekret@h.example/", b"http://u:****@h.example/"),
        (b"s" * 200 + b"://u:sekret@h.example/", b"s" * 200 + b"://u:****@h.example/"),
        (b"s" * 250_000, b"s" * 250_000),  # quadratic work would hang
    ],
)
def test_mask_heads_hides_password_after_long_scheme(value: bytes, shown: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nLink: %b\r\n\r\n"
    masked, names = mask_heads(head % value, has_secrets=False, keeps_cookies=False, hide=lambda each: each)
    assert masked == head % shown
    assert names == (["link"] if value != shown else [])
