"""A page used with the keyboard alone."""

from __future__ import annotations

from playwright.sync_api import Page, expect

#: All that can be used and is seen; of buttons that exclude one another one is reached, and arrows go on.
_USED = """() => {
  const seen = each => each.checkVisibility({visibilityProperty: true}) && !each.disabled;
  const all = [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
    + ", audio, video"
  )].filter(seen);
  const chosen = each => each.type != "radio" || each.checked;
  return all.filter(chosen);
}"""
_COUNT = f"() => ({_USED})().length"
#: Who has the focus: its place among them, and whether that is seen.
_FOCUS = f"""() => {{
  const at = ({_USED})().indexOf(document.activeElement);
  const style = getComputedStyle(document.activeElement);
  const player = ["AUDIO", "VIDEO"].includes(document.activeElement.tagName);
  const seen = player || (style.outlineStyle != "none" && parseFloat(style.outlineWidth) >= 1);
  return [at, seen, document.activeElement.outerHTML.slice(0, 200)];
}}"""


def tabbed(page: Page) -> list[str]:
    """What the Tab key misses on its way from the first control to the last, reaches out of order, or leaves
    without an outline. What is within a frame or a player is the browser's."""
    wanted = page.evaluate(_COUNT)
    page.evaluate("document.activeElement.blur()")
    reached: list[int] = []
    wrong: list[str] = []
    while len(set(reached)) < wanted and len(reached) < wanted + 40:
        page.keyboard.press("Tab")
        at, seen, markup = page.evaluate(_FOCUS)
        if at >= 0 and (not reached or at != reached[-1]):
            wrong += [] if seen else [f"no outline: {markup}"]
            reached.append(at)
    if page.locator(
        "iframe"
    ).count():  # whose viewer takes the focus when it is ready, and not when it is its turn
        reached = sorted(set(reached))
    if reached != list(range(wanted)):
        wrong.append(f"{wanted} to be reached, in order; and these were: {reached}")
    return wrong


def press(page: Page, name: str) -> None:
    """Tab to the control whose name, as it is read, begins so, and press Enter."""
    for _ in range(page.evaluate(_COUNT) + 1):
        page.keyboard.press("Tab")
        read = page.evaluate("document.activeElement.textContent.replace(/\\s+/g, ' ').trim()")
        if read.startswith(name):
            expect(page.locator(":focus")).to_be_visible()
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"no Tab leads to {name!r}")
