"""gopher and gophers: RFC 1738 3.4 (the URL), RFC 1436, Gopher+ (1993).

- `url`: the URL and the item types
- `request`: the request line of a URL
- `dialogue`: the transaction, which is one request and its reply; some items only return a target URL and are
  never fetched
- `reply`: the format of a reply, its metadata and its body
- `content`: the header line of a reply, the filters of its body, the proofs that the body is complete
- `menu`: menu lines and items
- `attributes`: attribute records, views and forms
"""

from __future__ import annotations

from protocols.gopher.url import (
    GopherUrl,
    build,
    list_names,
    parse,
    with_name,
    with_search,
    with_view,
)
from protocols.scheme import Scheme, Tree

__all__ = ["GOPHER", "GOPHERS", "GopherUrl"]


def _read_url_target(url: GopherUrl) -> str | None:
    """Return the URL in the selector of an item of type h (`URL:…`), or None for other items."""
    if url.gophertype != "h":
        return None
    from protocols.gopher.menu import (
        check_linked,
        linked_url,  # Imported lazily: few URLs have such a selector.
    )

    target = linked_url(url.selector)
    return None if target is None else check_linked(target)


GOPHER = Scheme(
    name="gopher",
    names="data object, menu, search or service, by its type",
    default_port=70,
    named_by=("selector",),
    tree=Tree(list_names),
    beside=with_name,
    stands_for=_read_url_target,
    parse=parse,
    build=build,
    archived_as="gopher",
    converse="protocols.gopher.dialogue:converse",
    refine={"search": with_search, "view": with_view},
)
GOPHERS = GOPHER._replace(name="gophers", tls="always")
