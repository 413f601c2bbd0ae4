// What a page can do without, and is nicer with. Every page works without this file.
"use strict";

// "/" goes to the address bar, as in a pager; not from within a field.
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, textarea, select");
  if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("address")?.select();
  }
});

// A form that acts is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.submitter?.name === "url") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// Schemes that this browser may hand over: it asks the person itself, and refuses what it does not know.
for (const button of document.querySelectorAll('[data-handlers] button[name="handler"]')) {
  button.addEventListener("click", () => {
    const template = location.origin + button.closest("[data-handlers]").dataset.handlers;
    for (const scheme of [button.value, "web+" + button.value]) {
      try {
        navigator.registerProtocolHandler(scheme, template);
        button.textContent = scheme + ": asked";
        return;
      } catch {}
    }
    button.disabled = true;
    button.textContent += ": this browser does not take it";
  });
}
