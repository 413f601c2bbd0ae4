"""The URLs that each capture in captures/nntp answers, or the reason why a capture answers no URL.

The status and block readers parse every capture in any case, command by command, to its last byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from resolver import Options


@dataclass(frozen=True)
class Case:
    """A URL resolved against recorded answers, and the expected outcome.

    - `body_of`: the commands whose blocks make up the body
    - `entries`: the number of entries in the listing
    - `also`: captures whose answers follow those of the row's capture
    - `ending`: the server closes the connection after the last recorded answer
    """

    url: str
    error: str | None = None
    kind: str = "article"
    body_of: tuple[bytes, ...] = ()
    entries: int = 0
    findings: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    ending: bool = False


@dataclass(frozen=True)
class Row:
    capture: str
    cases: tuple[Case, ...] = ()
    reason: str = ""


def article(url: str, command: bytes, **more: object) -> Case:
    return Case(url, body_of=(command,), **more)  # type: ignore[arg-type]


def by_id(message_id: str, url: str | None = None) -> Case:
    return article(f"news://h/{url or message_id}", b"ARTICLE <%s>" % message_id.encode())


def missing(url: str, **more: object) -> Case:
    return Case(url, error="NotFound", **more)  # type: ignore[arg-type]


def group(url: str, command: bytes, entries: int, **more: object) -> Case:
    return Case(url, kind="group", body_of=(command,), entries=entries, **more)  # type: ignore[arg-type]


FACTS = Options(want="facts")
_ODD = "odd!%23$%25&'*+-/=?%5E_%60%7B%7C%7D~.14@example.test"
_GAPS = group("nntp://h/test.gaps", b"XOVER 1000-1019", 15)
_NO_URL = "no URL makes the client send this command"

ROWS = (
    Row(
        "article_8bit",
        (by_id("latin1.3@example.test"), by_id("utf8.4@example.test"), by_id("octets.11@example.test")),
    ),
    Row("article_by_msgid", (by_id("plain.1@example.test"),)),
    Row("article_by_number", (article("nntp://h/test.gaps/1002", b"ARTICLE 1002"),)),
    Row("article_empty_body", (by_id("empty.9@example.test"),)),
    Row("article_folded_headers", (by_id("folded.8@example.test"),)),
    Row("article_mime", (by_id("mime.6@example.test"),)),
    Row(
        "article_msgid_missing",
        (missing("news://h/no.such@example.test"), missing("news://h/gap.1003@example.test")),
    ),
    Row("article_number_missing", (missing("nntp://h/test.gaps/1003"),)),
    Row(
        "article_odd_msgid",
        (
            by_id("odd!#$%&'*+-/=?^_`{|}~.14@example.test", _ODD),
            by_id("literal.15@[127.0.0.1]", "literal.15@%5B127.0.0.1%5D"),
        ),
    ),
    Row(
        "authinfo_bad",
        (
            Case("nntp://alice:wrong@h/test.article/1", error="AccessDenied"),
            Case("nntp://h/test.article/1", error="LoginRequired"),
        ),
    ),
    Row(
        "authinfo_needs_tls",
        (
            # The capture ends where its client gave up; the next capture begins with the same answers.
            Case(
                "nntp://alice:secret@h/private.secret",
                kind="group",
                also=("starttls_inside",),
                options=FACTS,
            ),
        ),
    ),
    Row(
        "authinfo_ok",
        (
            article("nntp://alice:secret@h/private.secret/1", b"ARTICLE 1"),
            Case("nntp://h/private.secret/1", error="LoginRequired"),
        ),
    ),
    Row(
        "authinfo_some_groups",
        (
            article(
                "news://alice:secret@h/secret.1@example.test",
                b"ARTICLE <secret.1@example.test>",
            ),
            Case("news://h/secret.1@example.test", error="LoginRequired"),
        ),
    ),
    Row(
        "bare_lf_article",
        reason="the client never sends BODY; test_response reads its blocks and what follows them",
    ),
    Row("bare_lf_article_nntplib", reason="the client never sends BODY; test_response reads its block"),
    Row("capabilities_mode_reader", reason=f"{_NO_URL}; transit_without_mode_reader takes its MODE READER"),
    Row("capabilities_reader", reason=_NO_URL),
    Row("compress_deflate", (group("nntp://h/test.gaps", b"OVER 1000-1019", 15),)),
    Row("compress_refused", reason="this client never sends these COMPRESS commands"),
    Row(
        "crosspost",
        (
            article("nntp://h/test.cross.a/2", b"ARTICLE 2"),
            article("nntp://h/test.cross.b/501", b"ARTICLE 501"),
            Case("nntp://h/test.cross.b/501", options=FACTS),
        ),
    ),
    Row("dot_stuffing", (by_id("dots.2@example.test"),)),
    Row("elinks_news_group", (_GAPS,)),
    Row("greeting_400", (Case("news://h/a@example.test", error="TryLater"),)),
    Row("greeting_502", (Case("news://h/a@example.test", error="AccessDenied"),)),
    Row(
        "group_empty",
        (
            Case("nntp://h/test.empty", kind="group"),
            Case("nntp://h/test.empty", kind="group", options=FACTS),
        ),
    ),
    Row("group_missing", (missing("nntp://h/no.such.group"),)),
    Row("group_ok", (Case("nntp://h/test.article", kind="group", options=FACTS),)),
    Row(
        "head_body_stat",
        (
            Case("nntp://h/test.article/1", options=FACTS),
            Case("news://h/plain.1@example.test", options=FACTS),
        ),
    ),
    Row("high_numbers", (Case("nntp://h/test.high", kind="group", options=FACTS),)),
    Row("idle_timeout_first", (Case("news://h/a@example.test", error="Disconnected", ending=True),)),
    Row("idle_timeout_later", (Case("nntp://h/test.gaps/1001", error="Disconnected", ending=True),)),
    Row(
        "list_active",
        (
            Case("news://h/test.c*", kind="directory", options=FACTS),
            Case(
                "news://h/*",
                kind="directory",
                body_of=(b"LIST ACTIVE", b"LIST NEWSGROUPS"),
                entries=17,
                also=("list_newsgroups",),
            ),
        ),
    ),
    Row("list_additions", reason=_NO_URL),
    Row(
        "list_newsgroups",
        reason="the client never sends LIST NEWSGROUPS alone; list_active takes its descriptions",
    ),
    Row(
        "listgroup",
        reason="the client sends LISTGROUP only if OVER is unknown",
    ),
    Row(
        "lynx_auth",
        (Case("nntp://h/test.gaps/1002", error="LoginRequired"),),
    ),
    Row("lynx_news_group", reason="the client sends HEAD for a group only if OVER is unknown"),
    Row("lynx_news_msgid", (by_id("plain.1@example.test"),)),
    Row("lynx_news_msgid_missing", (missing("news://h/no.such@example.test"),)),
    Row("lynx_news_msgid_pct", reason="lynx sends %25 as is; this client decodes it to %"),
    Row("lynx_news_star", reason="the client never sends XGTITLE"),
    Row("lynx_nntp_article", (article("nntp://h/test.gaps/1002", b"ARTICLE 1002"),)),
    Row("lynx_nntp_article_missing", (missing("nntp://h/test.gaps/1003"),)),
    Row("lynx_nntp_group", reason="the client sends HEAD for a group only if OVER is unknown"),
    Row("lynx_nntp_group_missing", (missing("nntp://h/no.such.group"),)),
    Row("lynx_nntp_range", reason="no URL names a range of numbers"),
    Row("lynx_transit", (article("nntp://h/test.gaps/1002", b"ARTICLE 1002"),)),
    Row("mime_attachments", (article("nntp://h/test.files/6", b"ARTICLE 6"),)),
    Row(
        "old_server",
        (
            group("nntp://h/test.sn", b"XOVER 10-12", 2),
            article("nntp://h/test.sn/10", b"ARTICLE 10"),
            missing("nntp://h/test.sn/99"),
            missing("nntp://h/no.such/1"),
            by_id("old.1@example.test"),
            missing("news://h/no.such@example.test"),
            Case("nntp://h/test.empty", kind="group"),
            Case(
                "news://h/test.*",
                kind="directory",
                body_of=(b"LIST ACTIVE test.*", b"LIST NEWSGROUPS"),
                entries=3,
            ),
        ),
    ),
    Row("old_server_drops", reason="the client never sends ARTICLE with a number without a group"),
    Row("over_odd_headers", reason=f"{_NO_URL}: a range of numbers; test_listing reads it"),
    Row("over_range", (group("nntp://h/test.gaps", b"OVER 1000-1019", 15),)),
    Row(
        "pipelined",
        (
            article("nntp://h/test.gaps/1001", b"ARTICLE 1001"),
            missing("nntp://h/test.gaps/1003"),
            article("nntp://h/test.gaps/1005", b"ARTICLE 1005"),
        ),
    ),
    Row(
        "starttls",
        (
            Case(
                "nntp://alice:secret@h/private.secret",
                kind="group",
                also=("starttls_inside", "authinfo_needs_tls"),
                options=Options(want="facts", tls="try"),
            ),
        ),
    ),
    Row(
        "starttls_inside",
        (
            Case(
                "nntp://alice:secret@h/private.secret",
                kind="group",
                also=("starttls", "authinfo_needs_tls"),
                options=Options(want="facts", tls="require"),
            ),
        ),
    ),
    Row("syntax_errors", reason="the client refuses these commands before it sends anything"),
    Row(
        "transit_without_mode_reader",
        (
            Case(
                "nntp://h/test.article",
                kind="group",
                also=("capabilities_mode_reader", "group_ok"),
                options=FACTS,
            ),
        ),
    ),
    Row(
        "w3m_news_star",
        (
            Case(
                "news://h",
                kind="directory",
                body_of=(b"LIST ACTIVE", b"LIST NEWSGROUPS"),
                entries=17,
                also=("list_newsgroups",),
            ),
        ),
    ),
    Row("w3m_nntp_group", (_GAPS,)),
    Row("w3m_nntp_range", reason="no URL names a range of numbers"),
    Row("xover_hdr", (Case("nntp://h/test.gaps", kind="group", options=FACTS),)),
    Row(
        "yenc_parts",
        (
            article("nntp://h/test.files/5", b"ARTICLE 5"),
            group("nntp://h/test.files", b"OVER 1-11", 11),
            article("nntp://h/test.files/2", b"ARTICLE 2"),
            article("nntp://h/test.files/4", b"ARTICLE 4"),
        ),
    ),
    Row("yenc_single", (article("nntp://h/test.files/1", b"ARTICLE 1"),)),
)
