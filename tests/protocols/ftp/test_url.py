"""Tests of ftp and ftps URLs (RFC 1738 3.2)."""

from __future__ import annotations

import pytest

from protocols.ftp.url import build
from resolver import FtpUrl, parse
from tests.protocols.url_rows import Good, check_good

GOOD = [
    Good("ftp://h", {"cwds": [], "name": None, "typecode": None, "default_port": 21}),
    Good("ftps://h", {"cwds": [], "name": None, "typecode": None, "default_port": 990}),
    Good("ftp://h/", {"cwds": [], "name": ""}),
    Good("ftp://h//", {"cwds": [""], "name": ""}),
    Good("ftp://h//etc/motd", {"cwds": ["", "etc"], "name": "motd"}),
    Good("ftp://h/%2Fetc/%2e./x", {"cwds": ["/etc", ".."], "name": "x"}),
    Good("ftp://h/a%252Fb", {"name": "a%2Fb"}),
    Good("ftp://h/a+b", {"name": "a+b"}),
    Good("ftp://h/?a/b:c@d&e=f", {"cwds": ["?a"], "name": "b:c@d&e=f"}),
    Good("ftp://h/a~/b", {"cwds": ["a~"], "name": "b"}, "unsafe-char"),
    Good("ftp://h/a#b;c", {"name": "a", "fragment": "b;c"}),
    # The typecode is matched without case and is a single letter.
    *(
        Good(f"ftp://h/a;{word}={x}", {"name": "a", "typecode": "d"})
        for word in ("type", "tYPe")
        for x in "dD"
    ),
    Good("ftp://h/;type=d", {"cwds": [], "name": "", "typecode": "d"}),
    Good("ftp://h/a/;type=i", {"cwds": ["a"], "name": "", "typecode": "i"}),
    Good("ftp://h/a;type=i#f", {"name": "a", "typecode": "i", "fragment": "f"}),
    Good("<ftp://h/a;type=a>", {"name": "a", "typecode": "a"}, "wrapper"),
    # An invalid typecode stays in the name and is not also a reserved-char finding.
    Good("ftp://h/a;type=", {"name": "a;type=", "typecode": None}, "bad-typecode"),
    Good("ftp://h/a;type=ii", {"name": "a;type=ii"}, "bad-typecode"),
    Good("ftp://h/a;type=%69", {"name": "a;type=i"}, "bad-typecode"),
    Good("ftp://h/a;type=i?", {"name": "a;type=i?"}, "bad-typecode"),
    Good("ftp://h/a;type=x/", {"cwds": ["a;type=x"], "name": ""}, "reserved-char"),
    Good("ftp://h/a;typ%65=i", {"name": "a;type=i", "typecode": None}, "reserved-char"),
    Good("ftp://h/a;types=i", {"name": "a;types=i", "typecode": None}, "reserved-char"),
    Good("ftp://h/a%3Btype=i", {"name": "a;type=i", "typecode": None}),
    Good("ftp://h/type=i", {"name": "type=i", "typecode": None}),
    # Other semicolons.
    Good("ftp://h/a;b;type=i", {"name": "a;b", "typecode": "i"}, "reserved-char"),
    Good("ftp://h/a;type=i;type=a", {"name": "a;type=i", "typecode": "a"}, "reserved-char"),
    Good("ftp://h/a;b;type=x", {"name": "a;b;type=x"}, "reserved-char bad-typecode"),
    Good("ftp://h/a;type=x~", {"name": "a;type=x~"}, "bad-typecode unsafe-char"),
    Good("ftp://h/;/;;", {"cwds": [";"], "name": ";;"}, "reserved-char"),
]


@pytest.mark.parametrize("row", GOOD, ids=lambda row: row.text)
def test_ftp_urls_are_parsed(row: Good) -> None:
    check_good(row)


def test_ftp_url_places_include_every_segment() -> None:
    url = parse("ftp://h/a%0Db//c;type=I")
    shown = {place.name: url.text[place.start : place.end] for place in url.places[2:]}
    assert shown == {"typecode": "I", "cwds[0]": "a%0Db", "cwds[1]": "", "name": "c"}


@pytest.mark.parametrize(
    ("url", "written"),
    [
        (FtpUrl(scheme="ftp", host="h"), "ftp://h"),
        (FtpUrl(scheme="ftp", host="h", name=b""), "ftp://h/"),
        (FtpUrl(scheme="ftps", host="h", port=990, default_port=990, name=b"a"), "ftps://h/a"),
        (FtpUrl(scheme="ftp", host="h", port=2121, default_port=21, name=b"a"), "ftp://h:2121/a"),
        (
            FtpUrl(scheme="ftp", host="::1", user=b"u", password=b"", cwds=(b"", b"/x;"), name=b"~?"),
            "ftp://u:@[::1]//%2Fx%3B/%7E?",
        ),
        (FtpUrl(scheme="ftp", host="h", name=b"a;type=i"), "ftp://h/a%3Btype=i"),
        (FtpUrl(scheme="ftp", host="h", name=b"a", typecode="d"), "ftp://h/a;type=d"),
        (FtpUrl(scheme="ftp", host="h", cwds=(b"a",)), "ftp://h/a/"),
        (FtpUrl(scheme="ftp", host="h", name=b"\r\n", fragment="x"), "ftp://h/%0D%0A#x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ftp_urls_are_built(url: FtpUrl, written: str) -> None:
    assert build(url) == written
