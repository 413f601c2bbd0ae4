"""The expected URL, result and request of each recorded exchange with a real Gopher server."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fixtures import recordings

FOLDER = recordings.FOLDER / "gopher"

#: The port of each measured server, as its menus contain it.
PORTS = {"gophernicus": 7101, "pygopherd": 7102, "umn23": 7103, "umn30": 7107}


@dataclass(frozen=True)
class Row:
    """The expectation for a capture.

    `path` is the path of the URL, at the server's port. `head` and `tail` are the numbers of bytes before and
    after the body. `body` is set if the body differs from the bytes between. `entries` is the number of
    entries of a listing. `other_request` is the reason why the client's bytes differ from the recorded bytes.
    """

    capture: str
    server: str
    path: str
    kind: str = "document"
    media_type: str = "text/plain"
    head: int = 0
    tail: int = 0
    body: bytes | None = None
    entries: int | None = None
    verified: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    error: str | None = None
    other_request: str | None = None

    @property
    def url(self) -> str:
        return f"gopher://127.0.0.1:{PORTS[self.server]}/{self.path}"


def octets(capture: str, who: str) -> bytes:
    """Return all bytes that the client or the server of a capture sent."""
    exchanges = json.loads((FOLDER / f"{capture}.json").read_text("utf-8"))["exchanges"]
    return b"".join(bytes.fromhex(each["hex"]) for each in exchanges if each["dir"] == who)


def _text(capture: str, server: str, path: str, **known: object) -> Row:
    """Return a row for a text or menu with a final period, after a `+-1` header for a Gopher+ URL."""
    framed = {"head": 5} if "%09%09" in path else {}
    return Row(capture, server, path, **{"tail": 3, "verified": ("terminator",), **framed, **known})  # type: ignore[arg-type]


def _menu(capture: str, server: str, path: str, entries: int, **known: object) -> Row:
    return _text(capture, server, path, **{**_MENU, "entries": entries, **known})


def _records(capture: str, server: str, path: str, entries: int, **known: object) -> Row:
    return _text(capture, server, path, **{**_MENU, "media_type": _PLUS, "entries": entries, **known})


_PLUS = "application/gopher+-menu"
_MENU: dict[str, object] = {"kind": "directory", "media_type": "application/gopher-menu"}
_CLOSED: dict[str, object] = {"tail": 0, "verified": ()}
_UNFRAMED: dict[str, object] = {"head": 0, "tail": 0, "verified": (), "findings": ("gopher:unframed",)}
_MALFORMED: dict[str, object] = {"head": 0, "kind": "search", "findings": ("gopher:unframed",)}
_POLL = "+%091%0D%0A+-1%0D%0AFrodo%0D%0Asecret%0D%0A{}%0D%0A1%0D%0A0%0D%0Abye%0D%0A.%0D%0A"
_ANSWERS = "+Text/plain%20En_US%091%0D%0A+-1%0D%0A{}%0D%0A.%0D%0A"
_STORY = b"+INFO: 0story\t0/story\t127.0.0.1\t7103\t+\r\n"
_ABSTRACT = b"+ABSTRACT:\r\n An abstract of the story.\r\n It has two lines.\r\n"
_KEYWORDS = b"+KEYWORDS:\r\n story, short, test\r\n"
_DOTS = b"before\r\n.\r\n.\r\n.hidden\r\n...\r\nafter\r\n"

ROWS: tuple[Row, ...] = (
    _records("ask-form-fetch-saveas-umn23", "umn23", "00/saveas%09%09?", 1),
    _records("ask-form-fetch-umn23", "umn23", "00/survey%09%09?", 8, findings=("gopher:answer-in-clear",)),
    _text("ask-form-no-answers-umn23", "umn23", "00/poll%09%09+"),
    _text(
        "ask-form-submit-ignored-pygopherd",
        "pygopherd",
        "0/plain/welcome.txt%09%09+%091%0D%0A+-1%0D%0ABob%0D%0A.%0D%0A",
        **_UNFRAMED,
    ),
    _text("ask-form-submit-scripted-umn23", "umn23", "00/poll%09%09" + _POLL.format("green")),
    _text(
        "ask-form-submit-surplus-crlf-umn23",
        "umn23",
        "00/poll%09%09" + _POLL.format("green"),
        other_request="curl sends a CR LF behind the form",
    ),
    Row("binary-gif-gophernicus", "gophernicus", "g/pixel.gif", media_type="image/gif"),
    Row("binary-pygopherd", "pygopherd", "9/data.bin", media_type="application/octet-stream"),
    _text("client-umn-ask-submit-askf", "umn23", "00/saveas%09%09" + _ANSWERS.format("answer.txt")),
    _text(
        "client-umn-ask-submit-askl",
        "umn23",
        "00/letter%09%09" + _ANSWERS.format("A%20title%0D%0A3%0D%0Aline%20one%0D%0Aline%20two%0D%0A"),
    ),
    _text("client-umn-ask-submit-choosef", "umn23", "00/upload%09%09" + _ANSWERS.format("A%20title")),
    _text(
        "client-umn-ask-submit",
        "umn23",
        "00/poll%09%09" + _POLL.format("red").replace("+%091", "+Text/plain%20En_US%091"),
    ),
    _records("client-umn-root-fallback-1", "umn30", "1%09%09$", 35),
    _menu("client-umn-root-fallback-2", "umn30", "1%09%09+", 35),
    # two TABs belong to type 7; by section 11 the answer is then a menu with one item
    _menu("client-umn-root-fallback-3", "umn30", "7%09%09+", 1, **_MALFORMED),
    _records("client-umn-root-gophernicus", "gophernicus", "1%09%09$", 1),
    _records("client-umn-root-pygopherd", "pygopherd", "1%09%09$", 22, **_CLOSED),
    _records("client-umn-root", "umn23", "1%09%09$", 30),
    _menu("client-umn-search", "umn23", "77/search.sh%09foo%20bar", 1),
    _records("client-umn-subdir", "umn23", "11/sub%09%09$", 3),
    _text("client-umn-text-view", "umn23", "00/story%09%09+Text/plain%20En_US"),
    Row(
        "empty-reply-pygopherd",
        "pygopherd",
        "0/welcome.txt%09",
        other_request="no URL leads there: a TAB at the end is never sent",
    ),
    Row("error-menu-gophernicus", "gophernicus", "1/URL:nothere/", error="NotFound"),
    Row("error-plain-gophernicus", "gophernicus", "0/nothere.txt"),
    Row("error-plain-pygopherd", "pygopherd", "0/nothere.txt", error="NotFound"),
    Row("error-plain-umn23", "umn23", "00/nothere", error="NotFound"),
    _records(
        "gplus-attr-named-two-umn23",
        "umn23",
        "00/story%09%09!+ABSTRACT%20+KEYWORDS",
        1,
        body=_STORY + _KEYWORDS + _ABSTRACT,
    ),
    _records("gplus-attr-named-umn23", "umn23", "00/story%09%09!+ABSTRACT", 1, body=_STORY + _ABSTRACT),
    _text(
        "gplus-attr-named-unsupported-pygopherd",
        "pygopherd",
        "0/plain/welcome.txt%09%09!+ABSTRACT",
        **_UNFRAMED,
    ),
    _records("gplus-attr-pygopherd", "pygopherd", "0/plain/welcome.txt%09%09!", 1, **_CLOSED),
    _records("gplus-attr-root-pygopherd", "pygopherd", "1%09%09!", 1, **_CLOSED),
    _records("gplus-attr-root-umn23", "umn23", "1%09%09!", 1),
    _records("gplus-attr-search-item-umn23", "umn23", "77/search.sh%09%09!", 1),
    _records("gplus-attr-umn23", "umn23", "00/story%09%09!", 1),
    _records("gplus-dir-attr-canned-gophernicus", "gophernicus", "1%09%09$", 1),
    _records(
        "gplus-dir-attr-named-umn23",
        "umn23",
        "11/sub%09%09$+VIEWS%20+ADMIN",
        3,
        findings=("gopher:attribute-missing",),
    ),
    _records("gplus-dir-attr-pygopherd", "pygopherd", "1/plain%09%09$", 6, **_CLOSED),
    _records("gplus-dir-attr-umn23", "umn23", "11/sub%09%09$", 3),
    # see client-umn-root-fallback-3
    _menu("gplus-empty-search-field-umn30", "umn30", "70/story.txt%09%09+", 1, **_MALFORMED),
    Row("gplus-error-attributes-umn23", "umn23", "00/nothere%09%09!", error="NotFound"),
    Row("gplus-error-pygopherd", "pygopherd", "0/nothere%09%09+", error="NotFound"),
    Row("gplus-error-umn23", "umn23", "00/nothere%09%09+", error="NotFound"),
    _text("gplus-lone-period-inside-umn30", "umn30", "00/run.sh%09%09+"),
    # a search for "?" by the grammar, not a Gopher+ request: its error text is a document
    _text("gplus-malformed-umn30", "umn30", "00/story.txt%09?"),
    _menu("gplus-menu-pygopherd", "pygopherd", "1/plain%09%09+", 6, **_CLOSED),
    _menu("gplus-menu-umn23", "umn23", "11/sub%09%09+", 3),
    _menu("gplus-one-tab-on-index-umn23", "umn23", "77/search.sh%09!", 1),
    _menu("gplus-two-tab-form-umn23", "umn23", "70/story%09%09+", 1, **_MALFORMED),
    _text(
        "gplus-view-alternate-postscript-umn23",
        "umn23",
        "00/story%09%09+application/postscript%20En_US",
        media_type="application/postscript",
    ),
    _text("gplus-view-alternate-spanish-umn23", "umn23", "00/story%09%09+Text/plain%20Es_ES"),
    Row(
        "gplus-view-binary-pygopherd",
        "pygopherd",
        "9/data.bin%09%09+",
        media_type="application/octet-stream",
        head=6,
        verified=("length",),
    ),
    _text("gplus-view-default-dots-umn23", "umn23", "00/dots%09%09+", body=_DOTS),
    Row("gplus-view-default-pygopherd", "pygopherd", "0/welcome.txt%09%09+", head=5, verified=("length",)),
    _text("gplus-view-default-umn23", "umn23", "00/story%09%09+"),
    Row("gplus-view-default-umn30", "umn30", "00/story.txt%09%09+", head=5, tail=3, verified=("length",)),
    Row(
        "gplus-view-ignored-pygopherd",
        "pygopherd",
        "0/welcome.txt%09%09+application/postscript%20Es_ES",
        media_type="application/postscript",  # the requested view: the reply does not name its view
        head=5,
        verified=("length",),
    ),
    _text("gplus-view-not-supported-gophernicus", "gophernicus", "0/welcome.txt%09%09+", **_UNFRAMED),
    _menu("gplus-view-recursive-umn23", "umn23", "11/sub%09%09+Directory/recursive", 4),
    Row(
        "gplus-view-short-count-umn30",
        "umn30",
        "00/data.bin%09%09+",
        head=6,
        error="Truncated",
    ),
    Row("gplus-view-unknown-length-pygopherd", "pygopherd", "0/search.sh%09%09+", head=5),
    Row("gplus-view-unknown-umn23", "umn23", "00/story%09%09+nonsense/type", error="NotFound"),
    _menu("menu-dir-gophernicus", "gophernicus", "1/sub", 8),
    _menu("menu-dir-pygopherd", "pygopherd", "1/sub", 3, **_CLOSED),
    _menu("menu-dir-umn30", "umn30", "11/sub", 3),
    _menu("menu-root-gophernicus", "gophernicus", "", 24),
    _menu("menu-root-pygopherd", "pygopherd", "", 22, **_CLOSED),
    _records(
        "search-gplus-unframed-umn23",
        "umn23",
        "77/search.sh%09foo%20bar%09+",
        1,
        head=0,
        findings=("gopher:unframed",),
    ),
    _menu("search-pygopherd", "pygopherd", "7/search.pyg%09foo%20bar", 1, **_CLOSED),
    _menu("search-umn23", "umn23", "77/search.sh%09foo%20bar", 1),
    _text("text-dots-crlf-umn30", "umn30", "00/dots-crlf.txt"),
    Row("text-dots-gophernicus", "gophernicus", "0/dots.txt"),
    Row("text-dots-pygopherd", "pygopherd", "0/dots.txt"),
    _text("text-dots-umn23", "umn23", "00/dots", body=_DOTS),
    _text("text-dots-umn30", "umn30", "00/dots.txt"),
    Row("text-empty-gophernicus", "gophernicus", "0/empty.txt"),
    _text("text-empty-umn23", "umn23", "00/empty"),
    Row("text-no-final-newline-umn30", "umn30", "00/noeol.txt"),
    Row("text-plain-gophernicus", "gophernicus", "0/welcome.txt"),
    Row("text-plain-pygopherd", "pygopherd", "0/welcome.txt"),
    _text("text-plain-umn23", "umn23", "00/welcome"),
    Row("text-utf8-gophernicus", "gophernicus", "0/utf8.txt"),
)  # fmt: skip
