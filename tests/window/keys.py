"""Keyboard navigation of a page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

#: All visible, enabled controls. A radio group is reached at its checked button; arrow keys move within it.
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
#: The focused control: its index among the controls, and whether its focus is visible.
_FOCUS = f"""() => {{
  const at = ({_USED})().indexOf(document.activeElement);
  const style = getComputedStyle(document.activeElement);
  const player = ["AUDIO", "VIDEO"].includes(document.activeElement.tagName);
  const seen = player || (style.outlineStyle != "none" && parseFloat(style.outlineWidth) >= 1);
  return [at, seen, document.activeElement.outerHTML.slice(0, 200)];
}}"""


def tab_faults(page: Page) -> list[str]:
    """Return the controls that Tab misses, reaches out of order or focuses without an outline.

    Tab starts at the first control and ends at the last. The contents of frames and media players belong to
    the browser.
    """
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
    ).count():  # The viewer in the frame takes the focus when it is ready, not when its turn comes.
        reached = sorted(set(reached))
    if reached != list(range(wanted)):
        wrong.append(f"{wanted} to be reached, in order; and these were: {reached}")
    return wrong


def press(page: Page, name: str) -> None:
    """Tab to the control whose accessible name starts with this text, and press Enter."""
    for _ in range(page.evaluate(_COUNT) + 1):
        page.keyboard.press("Tab")
        read = page.evaluate("document.activeElement.textContent.replace(/\\s+/g, ' ').trim()")
        if read.startswith(name):
            expect(page.locator(":focus")).to_be_visible()
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"no Tab leads to {name!r}")
