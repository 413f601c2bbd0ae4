"""Masking of secrets, in bytes with any segmentation and in text with any escaping. The credential cache."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import Reply, copy_facts
from protocols.location import Kind
from protocols.text import Masked
from resolver import Credentials
from resolver.network.mask import CAPACITY, CredentialCache, Mask, ReceivedMask, SentSecrets
from tests.hang import HANG

SAID = b"230 hello sesame, sesa\r\nses sesesame sesame"


def secrets_of(*secrets: bytes) -> SentSecrets:
    result = SentSecrets()
    result.add(secrets)
    return result


def listener_bytes(secrets: SentSecrets, pieces: list[bytes]) -> list[bytes]:
    """Return the bytes that a listener gets if these segments arrive, followed by the end of the data."""
    reading = ReceivedMask()
    chunks = [*(reading.feed(piece, secrets) for piece in pieces), reading.flush()]
    return [secrets.hide(octets) for octets in chunks if octets]


@pytest.mark.parametrize("first", range(len(SAID)))
@pytest.mark.parametrize("length", [0, 1, 3, 6])
def test_masked_reader_hides_secret_across_segments(first: int, length: int) -> None:
    cut = [SAID[:first], SAID[first : first + length], SAID[first + length :]]
    assert b"".join(listener_bytes(secrets_of(b"sesame"), cut)) == b"230 hello ****, sesa\r\nses se**** ****"


FEW = st.text("ab", max_size=40).map(str.encode)
LONG = st.text("ab", min_size=4, max_size=40).map(str.encode)


@given(FEW, st.lists(LONG, max_size=3), st.data())
def test_masked_reader_result_is_independent_of_segmentation(
    octets: bytes, secrets: list[bytes], data: st.DataObject
) -> None:
    """The result is also the same if a secret is part of another secret, or overlaps itself."""
    result = secrets_of(*secrets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    pieces = [octets[a:b] for a, b in zip([0, *cuts], [*cuts, len(octets)], strict=True)]
    assert b"".join(listener_bytes(result, pieces)) == result.hide(octets)
    assert not [secret for secret in secrets if secret in result.hide(octets)]


def test_short_secret_is_hidden_only_as_a_word() -> None:
    secrets = secrets_of(b"pw")
    assert secrets.hide(b"331 pw? pwd 'pw' xpw pw") == b"331 ****? pwd '****' xpw ****"
    assert (
        b"".join(listener_bytes(secrets, [b"331 pw", b"d is ", b"p", b"w", b" pw"]))
        == b"331 pwd is **** ****"
    )


def test_masked_reader_of_repeated_secret_takes_linear_time() -> None:
    """Work that is quadratic in the length of a block would take 50 s."""
    octets = b"sesame" * 175_000
    began = time.process_time()
    assert b"sesame" not in b"".join(listener_bytes(secrets_of(b"sesame", b"longer than sesame"), [octets]))
    assert time.process_time() - began < 8


def test_empty_secret_hides_nothing() -> None:
    assert secrets_of(b"").hide(b"230 hello") == b"230 hello"
    assert secrets_of(b"").hide_in_text("230 hello") == "230 hello"
    assert secrets_of(b"").count_safe(b"x") == 1


@pytest.mark.parametrize("secret", ["p\xe4ss'w\"ort", "back\\slash", "tab\there", "\u20ac\u20ac\u20ac\u20ac"])
def test_hide_in_text_hides_escaped_secrets(secret: str) -> None:
    secrets = secrets_of(secret.encode())
    for text in (
        secret,
        repr(secret),
        ascii(secret),
        secret.encode().decode("latin-1"),
        repr(secret.encode()),
    ):
        inner = text.strip("'\"")
        assert inner not in secrets.hide_in_text(f"the server said {text}")


def test_mask_hides_secrets_added_later() -> None:
    """A retrieval joins the connection before another retrieval sends a password on the same connection."""
    mask, secrets = Mask(), SentSecrets()
    mask.watch(secrets)
    mask.watch(secrets)
    assert mask.hide(b"sesame") == b"sesame"
    secrets.add([b"sesame"])
    assert (mask.hide(b"sesame"), mask.hide_in_text("sesame")) == (b"****", "****")


def test_mask_facts_hides_each_text_and_leaves_out_names() -> None:
    mask = Mask()
    mask.watch(secrets_of(b"sesame"))
    reply = Reply(
        kind=Kind.DOCUMENT,
        media_type="text/sesame",
        etag='"sesame"',
        title="open sesame",
        suggested=b"sesame.txt",
        meta=(("X-sesame", "sesame"), ("Set-Cookie", "sesame=sesame; Path=/sesame"), ("Set-Cookie", "x")),
        extra={"sesame": ["sesame", 200, {"deep": "sesame"}]},
    )
    facts = mask.facts(reply)
    assert facts == {
        **copy_facts(Reply(kind=Kind.DOCUMENT)),
        "media_type": "text/****",
        "title": "open ****",
        "meta": (("X-****", "****"), ("Set-Cookie", "****=sesame; Path=/****"), ("Set-Cookie", "x")),
        "extra": {"****": ["****", 200, {"deep": "****"}]},
    }
    assert type(facts["title"]) is Masked


def test_mask_facts_without_secrets_are_the_same() -> None:
    reply = Reply(kind=Kind.DOCUMENT, etag='"1"', suggested=b"a.txt", meta=(("X", "y"),), size=7)
    assert Mask().facts(reply) == copy_facts(reply)


GIVEN = (
    b"HTTP/1.1 200 OK\r\nSet-Cookie: c=sekret; Path=/\r\nset-cookie:d=sekret\r\nX: Set-Cookie: e=f\r\n\r\n"
)


@pytest.mark.parametrize("first", range(len(GIVEN)))
@pytest.mark.parametrize("length", [0, 1, 12])
def test_set_cookie_value_is_hidden_when_received(first: int, length: int) -> None:
    """The client never sent the value of Set-Cookie, so the value is not a known secret.

    The head may arrive in any segments.
    """
    cut = [GIVEN[:first], GIVEN[first : first + length], GIVEN[first + length :]]
    assert b"".join(listener_bytes(secrets_of(), cut)) == (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: c=****; Path=/\r\nset-cookie:d=****\r\nX: Set-Cookie: e=f\r\n\r\n"
    )


def test_unterminated_cookie_field_is_not_buffered() -> None:
    chunks = listener_bytes(secrets_of(), [b"Set-Cookie: c=", *(b"x" * 1_000 for _ in range(100)), b"\r\n"])
    assert len(chunks) > 1
    assert chunks[0] == b"Set-Cookie: c=****"


# Credentials from a prompt are cached by host and port. The cache has a maximum size.


async def test_credential_cache_is_bounded() -> None:
    asked: list[str] = []

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        asked.append(host)
        return Credentials(host.encode(), b"secret")

    keeper = CredentialCache(ask)
    for number in range(2 * CAPACITY):
        await keeper.request("ftp", f"h{number}", 21, None)
        await keeper.request("ftp", "often", 21, None)
    assert asked.count("often") == 1
    assert len(asked) == 2 * CAPACITY + 1
    result = await keeper.request("ftp", "h0", 21, None)
    assert result is not None
    assert (result.user, asked.count("h0")) == (b"h0", 2)


async def test_credential_cache_hit_does_not_wait_for_other_prompts(nursery: trio.Nursery) -> None:
    """A cached login is returned while the user is still typing the login for another host."""

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if host == "slow":
            await trio.sleep_forever()
        return Credentials(host.encode(), b"secret")

    keeper = CredentialCache(ask)
    first = await keeper.request("ftp", "known", 21, None)
    nursery.start_soon(keeper.request, "ftp", "slow", 21, None)
    await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(HANG):
        assert await keeper.request("ftp", "known", 21, None) is first


async def test_credential_cache_asks_again_after_none() -> None:
    class Source:
        round = 0

        def __call__(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
            return Credentials(b"me", b"%d" % self.round) if self.round else None

    source = Source()
    keeper = CredentialCache(source)
    assert await keeper.request("ftp", "h", 21, None) is None
    source.round = 1
    for _ in range(2):
        result = await keeper.request("ftp", "h", 21, None)
        assert result is not None
        assert result.password == b"1"
