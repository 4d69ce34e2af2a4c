// One card, and the conversation it comes from.

import { get, inSpace } from "./api.js";
import { conversation, dated, toMark, whole } from "./conversation.js";
import { announce, count, h, moment } from "./dom.js";
import { href, tags, told, when } from "./lists.js";

export function cardView({ space, id, signal, fail }) {
  const title = h("h1", { class: "told" }, "Card");
  const body = h("div", { "aria-busy": "true" });
  load(space, id, title, body, signal).catch((error) => fail(error, body));
  return [title, body];
}

async function load(space, id, title, body, signal) {
  const { card, source } = await get(inSpace(space, "cards", id), {}, signal);
  const session = source && (await get(inSpace(space, "sessions", card.session_id), {}, signal));
  title.replaceChildren(...told(card));
  document.title = `${title.textContent} · ${space} · JustMem`;
  const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  body.replaceChildren(
    h("dl", { class: "facts" },
      fact("Kind and status", tags(card)),
      fact("Happened", card.event_date.text === "unknown" ? "not known" : when(card)),
      fact("Said", moment(card.said_at)),
      fact("Supported by", `turn ${card.turns.join(", ")}`),
      fact("Session", h("a", { href: href(space, "session", card.session_id) }, card.session_id)),
      fact("Id", h("code", {}, card.id))),
    h("div", { class: "actions" },
      h("a", { class: "button", href: href(space, "cards", undefined, { subject: card.subject }) }, `All about ${card.subject}`),
      card.id.includes("#") ? "" : h("a", { class: "button danger", href: href(space, "forget", undefined, { card: card.id }) }, "Forget this card…")),
    ...(source ? [h("h2", {}, dated(session)), conversation(whole(session), source.citations)]
      : [h("p", { class: "quiet" }, "This space does not keep the words that this card comes from.")]),
  );
  body.setAttribute("aria-busy", "false");
  if (!source) return announce(title.textContent);
  announce(`${title.textContent}: ${count(source.citations.length, "passage")} marked.`);
  const mark = body.querySelector("mark");
  if (mark && mark.getBoundingClientRect().top > innerHeight) toMark(body, true);
}
