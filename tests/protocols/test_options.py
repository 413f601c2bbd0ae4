"""The validation of options and credentials."""

from __future__ import annotations

import pytest

from resolver import Credentials, Options


@pytest.mark.parametrize("tls", ["required", "Require", "", None, True])
def test_options_with_unknown_tls_value_raise(tls: str) -> None:
    with pytest.raises(ValueError, match="tls must be never, try or require"):
        Options(tls=tls)  # type: ignore[arg-type]


@pytest.mark.parametrize("login", [("me", b"hunter2"), (b"me", "hunter2"), (b"me", None)])
def test_credentials_that_are_not_bytes_raise_without_secret(login: tuple[bytes, bytes]) -> None:
    with pytest.raises(TypeError, match="must be bytes") as caught:
        Credentials(*login)
    assert "hunter2" not in str(caught.value)
