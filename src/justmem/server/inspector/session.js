// One session: its words, what was made of them, and what became of it.

import { get, inSpace } from "./api.js";
import { conversation, dated, whole } from "./conversation.js";
import { count, h, number } from "./dom.js";
import { href, rows } from "./lists.js";
import { retryButton, stateOf } from "./sessions.js";

export function sessionView(context) {
  const title = h("h1", {}, "Session");
  const body = h("div", { "aria-busy": "true" });
  const load = () => loaded(context, title, body, load).catch((error) => context.fail(error, body));
  load();
  return [title, body];
}

async function loaded(context, title, body, again) {
  const { space, id, signal } = context;
  const [record, session, found, unsupported] = await Promise.all([
    get(inSpace(space, "sessions", id, "status"), {}, signal),
    get(inSpace(space, "sessions", id), {}, signal),
    get(inSpace(space, "cards"), { session: id, limit: 200 }, signal),
    get(inSpace(space, "sessions", id, "quarantined"), {}, signal),
  ]);
  title.textContent = dated(session);
  document.title = `${title.textContent} · ${space} · JustMem`;
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  body.replaceChildren(
    h("dl", { class: "facts" },
      fact("State", stateOf(record)),
      fact("Turns", number(record.turns)),
      fact("Cards", number(record.cards)),
      fact("Words", `${number(record.tokens)} tokens`),
      fact("Id", h("code", {}, id))),
    record.reason ? h("p", { class: "wrong" }, record.reason) : "",
    h("div", { class: "actions" },
      retryButton(context, record, again),
      h("a", { class: "button danger", href: href(space, "forget", undefined, { session: id }) }, "Forget this session…")),
    h("h2", {}, count(record.cards, "card")),
    found.length ? rows(space, found) : h("p", { class: "empty" }, record.state === "empty" ? "Nothing durable was said." : "No cards yet."),
    found.length < record.cards ? h("p", {}, h("a", { href: href(space, "cards", undefined, { session: id }) }, "All of its cards")) : "",
    unsupported.length ? quarantined(unsupported) : "",
    h("h2", {}, "What was said"),
    conversation(whole(session)),
  );
  body.setAttribute("aria-busy", "false");
}

function quarantined(cards) {
  return h("details", {}, h("summary", {}, `${count(cards.length, "card")} that no turn supports, never used`),
    h("ul", { class: "plain" }, cards.map((card) => h("li", {}, `${card.subject} ${card.fact} `, h("span", { class: "quiet" }, card.reason)))));
}
