"""A mailto URL as the draft of a mail. Nothing is sent, and no program is started."""

from __future__ import annotations

from resolver.retrieval.response import Response, decode_text
from resolver.window.pages.mime import parts_of
from resolver.window.pages.page import PageAddressBar, WebPage
from resolver.window.pages.words import FactRow


def mail_page(response: Response, place: PageAddressBar) -> WebPage:
    """The draft, as the reply of the URL has it: who it goes to, what it says, and what of the URL is not in
    it."""
    addresses = (response.extra or {}).get("addresses")
    body = parts_of(response.content)[0].text
    values = {
        "addresses": [str(each) for each in addresses] if isinstance(addresses, list) else [],
        "fields": [FactRow(name.title(), value) for name, value in response.meta if name.lower() != "body"],
        "body": body,
        "draft": decode_text(response.content, None),
        "found": [finding for finding in response.findings if finding.action != "allow"],
        "target": response.target,
    }
    return WebPage("mail.html", place.url, 200, values)
