"""The peer's own words about an object, by name: fields of http (RFC 9110 5), headers of an article (RFC
5536), of a mailto URL. A name means the same in any case, and may have several values.
"""

from __future__ import annotations

from collections.abc import Iterator

from protocols.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """Pairs of a name and a value, as they came and in their order, which can be asked by name in any case.

    `headers["content-type"]` has the values of all fields of that name, with `, ` in between (RFC 9110 5.2);
    `get_list` has each by itself, which `Set-Cookie` needs. `for name, value in headers` has every pair,
    `dict(headers)` each name once, in lower case. They equal a tuple of the same pairs.

    Examples:
        >>> headers = (await resolver.fetch("http://127.0.0.1:8920/about.txt")).headers
        >>> headers["CONTENT-TYPE"], headers.get("x-none"), headers.get_list("content-length")
        ('text/plain; charset=utf-8', None, ['37'])
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> str:
        if values := self.get_list(name):
            return ", ".join(values)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_list(name))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return self.pairs == (other.pairs if isinstance(other, Headers) else other)

    def __hash__(self) -> int:
        return hash(self.pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        """As `headers[name]`, and `default` where there is none of that name."""
        return ", ".join(values) if (values := self.get_list(name)) else default

    def get_list(self, name: str) -> list[str]:
        """Every value of that name, in their order; none where there is none."""
        wanted = name.lower()
        return [value for found, value in self.pairs if found.lower() == wanted]

    def keys(self) -> list[str]:
        """Each name once, in lower case, in the order they came."""
        return list(dict.fromkeys(name.lower() for name, _ in self.pairs))


def without_cookie(name: str, value: str) -> str:
    """A header as it is shown and written down: what a cookie says is a secret (S11)."""
    if name.lower() != "set-cookie":
        return value
    cookie, semicolon, attributes = value.partition(";")
    own, is_pair, _ = cookie.partition("=")  # one without a name is all value (RFC 6265bis 5.6)
    return f"{own if is_pair else ''}{is_pair}****{semicolon}{attributes}"
