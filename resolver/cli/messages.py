"""Error messages with the cause, the position of the error in the URL (a caret), and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.errors import (
    InvalidUrl,
    NotFound,
    Refused,
    ResolveError,
    TlsError,
    UnsupportedScheme,
)
from protocols.text import Masked, own_text
from resolver.cli import streams
from resolver.policy.schemes import find_rules
from resolver.url.parsing import place_in_shown, redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from resolver.network.events import Kept
    from resolver.transfer.response import Saved

#: Maximum characters of a URL in a message. A longer URL is shortened to the text around the error.
_MAX_SHOWN = 200


def describe(error: ResolveError, text: str, *, typed: bool = False) -> list[Masked]:
    """Format an error about the URL `text` (as typed) as lines for standard error.

    Passwords in the URL are redacted. A caret marks the position of a syntax error. The last line suggests a
    correction or, on a terminal, the help page of the policy rule. If the error is about another URL, such as
    the target of a redirect, the message names this URL, too. `typed` is true for a URL that the user typed.
    Wildcards in such a URL may be a glob pattern.
    """
    shown = redact(text)
    url = shown if error.url is None else error.url
    location = Masked("" if url == shown else f"at {_shorten(url)}: ")
    label, advice = own_text(_label(error)), own_text(_advise(error, text))
    lines = [Masked(f"{_shorten(shown)}: {location}{label}{error.message}{advice}")]
    position = getattr(error, "position", None)
    if position is not None and url and not (location and "****" in url):
        lines += _mark_position(url, url, position) if location else _mark_position(text, shown, position)
    suggestion = None if location and not typed else _hint(error, text, typed)
    if suggestion is None and isinstance(error, Refused) and streams.is_terminal():
        suggestion = own_text(f"resolve help {error.rule} explains the rule")
    return lines if suggestion is None else [*lines, Masked(f"  {suggestion}")]


def _hint(error: ResolveError, text: str, typed: bool) -> Masked | None:
    # lazy import: it takes 2 ms, and most command lines are valid
    from resolver.cli.hints import find_hint, find_pattern_hint

    if typed and isinstance(error, NotFound):
        return find_pattern_hint(text)
    return find_hint(error, text)


def _shorten(shown: Masked) -> Masked:
    if not shown:
        return Masked("''")
    return shown if len(shown) <= _MAX_SHOWN else Masked(f"{shown[:_MAX_SHOWN]}…")


def _advise(error: ResolveError, text: str) -> str:
    """Return the advice how to fix an error, or an empty text if the message contains it already."""
    if error.setting == "user":
        return " (log in with --user NAME and --password-file FILE)"
    scheme = text.partition(":")[0].lower()
    if isinstance(error, Refused) and error.rule == "S10" and find_rules(scheme).session:
        return " (resolve open URL opens a session, resolve cat --for S URL records one)"
    if isinstance(error, Refused) and error.flag is not None:
        return "" if error.flag in error.message else f"; {error.flag} would allow it"
    if isinstance(error, UnsupportedScheme) and error.setting is not None:
        return f"; {_option(error.setting)} would allow it"
    if isinstance(error, TlsError) and error.certificate is not None:
        # for the host of a redirect, a pin must be set in the host's section of the configuration
        pin = f"--pin {error.certificate}" if error.url == redact(text) else f'pin = "{error.certificate}"'
        words = f"{pin} if the operator of the server confirms this digest"
        return f" ({words})" if error.setting is None else f" ({_option(error.setting)}, or {words})"
    return "" if error.setting is None else f" ({_option(error.setting)})"


def _option(setting: str) -> str:
    """Convert the name of a setting to its option, such as `idle_timeout` to `--idle-timeout`."""
    name, _, value = setting.partition(" ")
    return f"--{name.replace('_', '-')} {value}".rstrip()


def _label(error: ResolveError) -> str:
    if isinstance(error, InvalidUrl):
        return "not a URL: " if error.message.startswith(error.kind) else f"not a URL ({error.kind}): "
    if isinstance(error, Refused) and error.rule not in error.message:
        return f"refused ({error.rule}): "
    return ""


def _mark_position(text: str, shown: Masked, position: int) -> list[Masked]:
    """Return two lines: the redacted URL, and a caret under `position`.

    `position` is an offset in the URL as typed, and is corrected for a redacted password.
    """
    column = place_in_shown(text, shown, position)
    start = max(0, column - _MAX_SHOWN // 2)
    window = shown[start : start + _MAX_SHOWN]
    # Each character must have the width of one column, so that the caret is at the correct position.
    printable = own_text("".join(char if char.isprintable() else "?" for char in window))
    return [Masked(f"  {printable}"), Masked(f"  {' ' * (column - start)}^")]


def describe_saved(saved: Saved) -> Masked:
    """Describe a saved file: its size, the offset at which it was resumed, and its mirror."""
    unchanged = Masked("kept unchanged, " if saved.skipped else "")
    resumed = Masked(f", resumed at byte {saved.resumed_from}" if saved.resumed_from else "")
    mirror = Masked("" if saved.mirror is None else f", from {_shorten(saved.mirror)}")
    return Masked(f"{unchanged}{saved.bytes} bytes{resumed}{mirror}")


def advise_resume(files: Sequence[Kept], again: Masked) -> Masked:
    """Describe the partial files of failed transfers, and how to resume them with the command `again`."""
    match files:
        case []:
            return Masked("no partial files are kept")
        case [file]:
            rerun = Masked("resumes it" if file.resumes else "starts over: its scheme has no offsets")
            return Masked(
                f"{file.octets} bytes are kept in {own_text(file.path + '.part')!r}; {again} {rerun}"
            )
    octets = sum(file.octets for file in files)
    condition = Masked("" if all(file.resumes for file in files) else " where the scheme has offsets")
    return Masked(
        f"{octets} bytes of {len(files)} files are kept, each in NAME.part; {again} resumes them{condition}"
    )
