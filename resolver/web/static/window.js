// Optional conveniences: every page works without this file.
"use strict";

// "/" moves the focus to the address bar, as in a pager, unless the focus is in a field.
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, textarea, select");
  if (event.key === "/" && !inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("address")?.select();
  }
});

// A POST form is sent once, even if its button is pressed several times.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || event.submitter?.name === "url") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  for (const form of document.forms) delete form.dataset.sent;
});

// Progress of transfers by server-sent events. Without scripts the page reloads periodically.
const transfers = document.querySelector("form[data-events]");
if (transfers) {
  let source = null;
  let change = transfers.dataset.change;

  const say = (row, place, text) => {
    const found = row.querySelector(place);
    found.hidden = !text;
    (found.querySelector("bdi") ?? found).textContent = text;
  };

  const buttonsOf = (one) =>
    one.buttons.map(([name, label]) => {
      const button = document.createElement("button");
      Object.assign(button, { id: name + one.number, className: "plain", name, value: one.number, textContent: label });
      button.setAttribute("aria-labelledby", `${button.id} n${one.number}`);
      return button;
    });

  const show = (one) => {
    const row = document.getElementById("t" + one.number);
    if (!row) return location.reload();  // started on another page
    for (const [place, text] of Object.entries({
      ".file": one.name, ".note": one.error, ".proofs": one.proofs, ".state": one.state, ".count": one.amount,
      ".rate": one.rate,
    })) say(row, place, text);
    const bar = row.querySelector("progress");
    bar.hidden = one.percent === null;
    if (one.percent !== null) bar.value = one.percent;
    if (row.dataset.state === one.state) return;
    row.dataset.state = one.state;
    const focused = row.contains(document.activeElement);
    row.querySelector(".buttons").replaceChildren(...buttonsOf(one));
    if (focused) (row.querySelector("button") ?? row.querySelector("a")).focus();
    transfers.querySelector("[role=status]").textContent = `${one.name}: ${one.state}`;
  };

  const follow = () => {
    source = new EventSource(`${transfers.dataset.events}?since=${change}`);
    source.addEventListener("message", (event) => {
      change = event.lastEventId;
      JSON.parse(event.data).forEach(show);
      const runs = transfers.querySelector('[data-state="waiting"], [data-state="running"]');
      transfers.querySelector(".all").hidden = !runs;
    });
  };

  // A hidden page closes its connection.
  document.addEventListener("visibilitychange", () => {
    source?.close();
    if (!document.hidden) follow();
  });
  if (!document.hidden) follow();
}
