// Sessions and how far each is; what failed can be tried again.

import { get, inSpace, post } from "./api.js";
import { announce, h, number, time } from "./dom.js";
import { href } from "./lists.js";

const PAGE = 100;
const STATES = {
  stored: "cards made",
  empty: "nothing durable was said",
  pending: "words kept, cards to be made",
  failed: "cards could not be made",
};

export const stateOf = (record) => h("span", { class: `state ${record.state}`, title: STATES[record.state] }, record.state);

export function sessionsView(context) {
  const { space, query, signal, fail } = context;
  const state = query.get("state") ?? "";
  const page = Math.max(0, Number(query.get("page") ?? 1) - 1);
  const body = h("div", { "aria-busy": "true" });
  const load = async () => {
    const { sessions: states } = await get(inSpace(space), {}, signal);
    const all = Object.values(states).reduce((sum, each) => sum + each, 0);
    const total = state ? (states[state] ?? 0) : all;
    const end = Math.max(0, total - page * PAGE); // the server lists the oldest first
    const offset = Math.max(0, end - PAGE);
    const found = await get(inSpace(space, "sessions"), { state, offset, limit: Math.max(1, end - offset) }, signal);
    body.replaceChildren(...shown(context, { states, all, total, state, page, sessions: found.toReversed() }, load));
    body.setAttribute("aria-busy", "false");
  };
  load().catch((error) => fail(error, body));
  return [h("h1", {}, "Sessions"), body];
}

function shown(context, { states, all, total, state, page, sessions }, again) {
  const { space } = context;
  const link = (value, text, size) => h("a", { href: href(space, "sessions", undefined, { state: value }), "aria-current": value === state && "true", title: STATES[value] }, text, " ", h("span", { class: "quiet" }, number(size)));
  const last = Math.ceil(total / PAGE) - 1;
  const step = (text, to) => (to >= 0 && to <= last ? h("a", { class: "button", href: href(space, "sessions", undefined, { state, page: to ? to + 1 : "" }) }, text) : "");
  return [
    h("nav", { class: "pills", "aria-label": "By state" }, link("", "all", all), Object.keys(STATES).map((each) => link(each, each, states[each] ?? 0))),
    sessions.length ? table(context, sessions, again) : h("p", { class: "empty" }, "No such sessions."),
    last > 0 ? h("nav", { class: "pager", "aria-label": "Pages" },
      step("Newer", page - 1), h("span", {}, `Page ${number(page + 1)} of ${number(last + 1)}`), step("Older", page + 1)) : "",
  ];
}

function table(context, sessions, again) {
  const head = ["When", "Session", "State", "Turns", "Cards"];
  return h("table", { class: "sessions" },
    h("thead", {}, h("tr", {}, head.map((title) => h("th", { scope: "col", class: ["Turns", "Cards"].includes(title) && "figure" }, title)))),
    h("tbody", {}, sessions.map((record) => h("tr", {},
      h("td", { class: "when" }, time(record.at)),
      h("th", { scope: "row" }, h("a", { href: href(context.space, "session", record.id) }, record.id)),
      h("td", {}, stateOf(record), record.reason ? h("p", { class: "reason" }, record.reason) : "", retryButton(context, record, again)),
      h("td", { class: "figure", "data-label": "turns" }, number(record.turns)),
      h("td", { class: "figure", "data-label": "cards" }, number(record.cards), record.quarantined ? h("small", {}, ` +${record.quarantined} set aside`) : "")))));
}

export function retryButton(context, record, again) {
  if (!["failed", "pending"].includes(record.state)) return "";
  const { space, signal } = context;
  const click = async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    button.textContent = "Trying…";
    try {
      await post(`${inSpace(space, "retry")}?wait=true&session=${encodeURIComponent(record.id)}`, {}, signal);
      const now = await get(inSpace(space, "sessions", record.id, "status"), {}, signal);
      announce(`Session ${record.id} is ${now.state}. ${now.reason}`);
      await again();
      context.counted();
    } catch (error) {
      context.fail(error, button.parentElement);
    }
  };
  return h("button", { type: "button", "aria-label": `Retry session ${record.id}`, click }, "Retry");
}
