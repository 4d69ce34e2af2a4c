// The months in which something was said; each opens to its cards.

import { get, inSpace } from "./api.js";
import { announce, count, day, h, number, svg } from "./dom.js";
import { rows } from "./lists.js";

const STEP = 100;

export function timelineView(context) {
  const { space, signal, fail } = context;
  const body = h("div", { "aria-busy": "true" });
  get(inSpace(space, "timeline"), {}, signal)
    .then(({ months }) => {
      body.setAttribute("aria-busy", "false");
      announce(count(months.length, "month"));
      if (!months.length) return body.replaceChildren(h("p", { class: "empty" }, "Nothing is remembered in this space yet."));
      const most = Math.max(1, ...months.map((each) => each.cards));
      const years = Map.groupBy(months.toReversed(), (each) => each.month.slice(0, 4));
      body.replaceChildren(...[...years].map(([year, within]) =>
        h("section", { class: "year", "aria-labelledby": `year-${year}` }, h("h2", { id: `year-${year}` }, year), within.map((each) => monthRow(context, each, most)))));
    })
    .catch((error) => fail(error, body));
  return [h("h1", {}, "Timeline"), h("p", { class: "lead" }, "Months by the time of the conversation. Open a month to read its cards in order."), body];
}

function monthRow(context, month, most) {
  const name = day(month.month).split(" ")[0];
  const bar = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 8 }), svg("rect", { class: "filled", width: month.cards && Math.max(0.6, (month.cards / most) * 100), height: 8 }));
  const inside = h("div", { class: "inside" });
  const details = h("details", { class: "month" },
    h("summary", {}, h("span", { class: "name" }, name), bar, h("span", { class: "figures" }, `${number(month.cards)} ${month.cards === 1 ? "card" : "cards"}`, h("span", { class: "quiet" }, count(month.sessions, "session")))),
    inside);
  details.addEventListener("toggle", () => {
    if (details.open && !inside.hasChildNodes()) more(context, month, inside, 0);
  });
  return details;
}

async function more({ space, signal, fail }, month, inside, shown) {
  const place = h("div", { "aria-busy": "true" });
  inside.append(place);
  try {
    const limit = Math.min(STEP, month.cards - shown);
    const found = limit ? await get(inSpace(space, "cards"), { offset: month.offset + shown, limit }, signal) : { cards: [] };
    place.setAttribute("aria-busy", "false");
    if (!month.cards) return place.append(h("p", { class: "quiet" }, "No cards were made of what was said."));
    place.append(rows(space, found.cards, { start: shown + 1 }));
    const left = month.cards - shown - found.cards.length;
    if (left > 0 && found.cards.length) {
      const next = h("button", { type: "button", click: () => (next.remove(), more({ space, signal, fail }, month, inside, shown + found.cards.length)) }, `Show ${number(Math.min(STEP, left))} more of ${number(left)}`);
      place.append(next);
    }
    announce(`${count(found.cards.length, "card")} of ${day(month.month)}`);
  } catch (error) {
    fail(error, place);
  }
}
