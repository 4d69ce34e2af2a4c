// Cards as rows, and the addresses of what they lead to.

import { day, h, time } from "./dom.js";

export const KINDS = ["fact", "event", "preference", "state", "measurement", "relation", "list", "interaction", "note"];
export const STATUSES = ["stable", "ongoing", "planned", "completed"];

export function href(space, view, id, query = {}) {
  const path = ["space", space, view, ...(id === undefined ? [] : [id])].map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** When it happened, or else when it was said. */
export function when(card) {
  const happened = card.event_date.text !== "unknown";
  if (!happened) return time(card.said_at, `said ${day(card.said_at)}`);
  return h("span", {}, card.event_date.text.split("/").map(day).join(" – "));
}

export const told = (card) => [h("span", { class: "subject" }, card.subject), " ", card.fact];

export const tags = (card) => [
  h("span", { class: `tag kind-${card.kind}` }, card.kind),
  h("span", { class: "tag" }, card.status),
];

export function rows(space, cards, { start = 1 } = {}) {
  return h("ol", { class: "cards", start }, cards.map((card) =>
    h("li", {},
      h("span", { class: "when" }, when(card)),
      h("a", { class: "told", href: href(space, "card", card.id) }, told(card)),
      h("span", { class: "tags" }, tags(card)))));
}
