"""The dialogues of an http URL: send the request, log in if necessary, and interpret the status code."""

from __future__ import annotations

from dataclasses import replace

from protocols.contract import Reply
from protocols.errors import ProtocolError, ResolveError
from protocols.http.auth import UNAUTHORIZED, HttpLogin
from protocols.http.call import HttpAnswer, perform
from protocols.http.codings import ALWAYS, Decoding, choose
from protocols.http.request import HttpRequest, check_part, compose, entity_tag
from protocols.http.response import (
    SWITCHING,
    BodyFraming,
    ResponseHead,
    check_status,
    landed_elsewhere,
    parse_date,
    parse_suggested_name,
)
from protocols.http.url import HttpUrl
from protocols.location import Finding, Kind
from protocols.options import DecodingBudget, Limits, Options, Validators
from protocols.step import CopyBody, Dialogue, ReleaseToPool, StartBody, copy_body

_OK = 200
#: The status codes of a server that does not support HEAD.
_NO_HEAD = (405, 501)
_PARTIAL = 206
_NOT_MODIFIED = 304
_REDIRECT = "a redirect would be checked against the policy and followed as a separate retrieval"
#: The status code Range Not Satisfiable: the object ends before the requested range.
_NO_SUCH_PART = 416


def retrieve(url: HttpUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[object]:
    """Return the steps of a retrieval.

    If the caller needs only metadata, the request is HEAD. If the server does not support HEAD, the request
    is GET, and the body is not read. If a request to resume a partial copy (without `Options.stop`) fails,
    the client requests the complete object. The first request fails if the object is now shorter than the
    partial copy, or if the response contains another range.
    """
    options, limits = options or Options(), limits or Limits()
    login = HttpLogin(url, options)
    if login.credentials_step is not None:
        login.credentials = yield login.credentials_step
    request = compose(url, options, choose_codings(options))
    resumes = options.start > 0 and options.stop is None
    while True:
        answer = yield from perform(login.sign(request), options, limits, tls=url.secured)
        head = answer.head
        login.process_head(head, request)
        if head.status == UNAUTHORIZED and (yield from login.can_answer(answer)):
            continue
        if request.method == b"HEAD" and head.status in _NO_HEAD:
            request = request._replace(method=b"GET")
        elif resumes and not _continues_copy(head, options):
            resumes = False
            request = compose(url, replace(options, start=0), choose_codings(options))
        else:
            break
    has_body = options.want != "facts" and head.framing is not BodyFraming.NONE
    reply = _interpret(head, url, options, limits, login, has_body=has_body)
    has_body = has_body and not reply.unchanged and reply.moved is None
    try:
        decoding = _decoding(head, options, limits, reply) if has_body and head.codings else None
    except ResolveError:  # the caller receives `failure`, because the status code explains the cause better
        if reply.failure is None:
            raise
        has_body = False
    if not has_body:
        yield from answer.skip_body(reply.findings)
        if reply.failure is not None:
            raise reply.failure
        yield StartBody(reply, _REDIRECT)
        return None
    yield StartBody(reply, _REDIRECT)
    state = yield from answer.emit_body(reply, decoding)
    if reply.failure is not None:
        yield ReleaseToPool(state)
        raise reply.failure
    return state


def _interpret(
    head: ResponseHead, url: HttpUrl, options: Options, limits: Limits, login: HttpLogin, *, has_body: bool
) -> Reply:
    """Interpret the status code, and return the reply without its body.

    If the server refused the request, the reply has a `failure`.

    Raises:
        ProtocolError: the response contains another range.
    """
    is_conditional = options.held is not None and not options.start and options.want != "facts"
    if head.status == _NOT_MODIFIED and is_conditional:
        reply = _describe(head, 0, None, login.findings, raw=options.raw)
        return replace(reply, unchanged=True)
    start, stop = (0, None) if options.want == "facts" else (options.start, options.stop)
    try:
        if login.refusal is not None:
            raise login.refusal
        part, file = start > 0 or stop is not None, options.want == "file"
        moved = None if head.status == _OK else check_status(head, part=part, file=file)
    except ResolveError as error:
        if options.via is not None:  # Squid, tinyproxy and Privoxy answer as the server would: 403, 404, 502
            error = error.saying("or the proxy does so itself")
        if not has_body:
            return Reply(kind=Kind.ERROR, failure=error)
        return replace(_describe(head, 0, None, [], raw=False), kind=Kind.ERROR, failure=error)
    if moved is not None:
        facts = {"status": head.status}
        return Reply(kind=Kind.LINK, meta=head.fields, moved=moved, extra=facts, findings=login.findings)
    reply = _describe(head, start, stop, login.findings, raw=options.raw)
    if options.asked is not None:
        finding = landed_elsewhere(url, options.asked, reply.media_type)
        reply.findings.extend([] if finding is None else [finding])
    if is_conditional and _is_covered(options.held, reply):
        return replace(reply, unchanged=True)
    if options.want == "listing" and has_body:
        from protocols.http.index import index_reader  # lazy import: most URLs name documents

        return replace(reply, listing=index_reader(url, head, limits, reply.findings))
    return reply


def _is_covered(copy: Validators | None, reply: Reply) -> bool:
    """Return whether the local copy is current.

    The validators are compared here too, because a server may ignore a conditional request. If the two
    modification times differ, an nginx with `if_modified_since exact` sends the object again, even if the
    local copy is newer.
    """
    current = Validators(size=reply.size, modified=reply.modified, etag=reply.etag)
    return copy is not None and copy.covers(current)


def _describe(
    head: ResponseHead, start: int, stop: int | None, findings: list[Finding], *, raw: bool
) -> Reply:
    if head.status != _PARTIAL:
        start, stop = 0, None
    is_part = start > 0 or stop is not None
    coded = bool(head.codings) and not raw
    media_type, charset = head.content_type
    modified, suggested = head.first.get("last-modified"), head.first.get("content-disposition")
    return Reply(
        kind=Kind.DOCUMENT,
        media_type=media_type,
        charset=charset,
        size=check_part(head, start, stop) if is_part else None if coded else head.announced,
        start=start,
        stop=stop,
        modified=parse_date(modified) if modified else None,
        etag=None if coded else entity_tag(head),
        suggested=parse_suggested_name(suggested) if suggested else None,
        meta=head.fields,
        extra={"status": head.status},
        findings=findings,
    )


def _decoding(head: ResponseHead, options: Options, limits: Limits, reply: Reply) -> Decoding | None:
    if options.raw or not (codings := head.codings):
        return None
    decoding = _choose_decoding(codings, options, limits)
    if options.want == "file":
        detail = f"sent with the content coding {codings[0]}, which was not requested"
        reply.findings.append(Finding("http:coded", "warn", detail))
    return decoding


def _choose_decoding(codings: list[str], options: Options, limits: Limits) -> Decoding:
    return choose(codings, {**ALWAYS, **options.codings()}, DecodingBudget(limits.ratio, options.most))


def _continues_copy(head: ResponseHead, options: Options) -> bool:
    """Return whether the body of the response continues the partial copy.

    The result is False for 416 (Range Not Satisfiable) and for a response with another range. It is also
    False if the size is unknown, because a range may end before the object (RFC 9110 15.3.7).
    """
    if head.status != _PARTIAL:
        return head.status != _NO_SUCH_PART
    try:
        size = check_part(head, options.start)
    except ProtocolError:
        return False
    return size is not None or options.known.size is not None


def choose_codings(options: Options) -> tuple[str, ...]:
    """Return the content codings to request.

    The result is empty if the caller needs only metadata. It is also empty for a file and with `options.raw`,
    because the bytes are then stored without decoding.
    """
    coded = options.want in ("content", "listing") and not options.raw
    return (*ALWAYS, *options.codings()) if coded else ()


# This dialogue relays a request that the caller composed. The status code of the response is not interpreted,
# and redirects are not followed. A content coding is decoded within the limits of S16 (decompression bomb).
# The header fields about the content coding are then removed.

_CODING_FIELDS = ("content-encoding", "content-length")
#: The content codings that an http client may decode. The client receives a body with another content coding
#: unchanged. Some servers send a charset or `none` as the content coding.
_CLIENT_CODINGS = frozenset({"br", "compress", "deflate", "gzip", "x-compress", "x-gzip", "zstd"})


def relay(request: HttpRequest, options: Options, limits: Limits, *, tls: bool) -> Dialogue[object]:
    """Send the caller's request, and return its response as a reply.

    `extra` of the reply contains the status, the reason phrase and the HTTP version. After the status 101,
    the body consists of all bytes that the peer sends in the new protocol. If the response has no body, the
    connection is released before the reply is returned.
    """
    answer = yield from perform(request, options, limits, tls=tls)
    if answer.head.status == SWITCHING:
        yield StartBody(_describe_relayed(answer, coded=False))
        yield from copy_body(CopyBody("bytes of the new protocol"))
        return None
    bodiless = answer.head.framing is BodyFraming.NONE
    codings = answer.head.codings
    is_decoded = not bodiless and not _CLIENT_CODINGS.isdisjoint(codings)
    decoding = _choose_decoding(codings, options, limits) if is_decoded else None
    reply = _describe_relayed(answer, coded=decoding is not None)
    if bodiless:
        yield from answer.skip_body(reply.findings)
    yield StartBody(reply)
    return None if bodiless else (yield from answer.emit_body(reply, decoding))


def _describe_relayed(answer: HttpAnswer, *, coded: bool) -> Reply:
    head = answer.head
    fields = head.fields
    if coded:
        fields = tuple(field for field in fields if field[0] not in _CODING_FIELDS)
    return Reply(
        kind=Kind.DOCUMENT,
        meta=fields,
        extra={"status": head.status, "reason": head.reason, "version": answer.exchange.version},
    )
