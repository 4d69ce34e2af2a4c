// A source, opened over the page: closing it leads back to where one was.

import { get, inSpace } from "./api.js";
import { conversation, dated, toMark, whole } from "./conversation.js";
import { h } from "./dom.js";
import { href, tags, told } from "./lists.js";

const dialog = document.getElementById("source");
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

/** `what`: {citations} of one session, or a {card}, whose own citations are asked for. */
export async function openSource(space, what, signal) {
  const body = h("div", { class: "body", tabindex: "0", role: "region", "aria-label": "Conversation" }, h("p", { class: "quiet" }, "Loading…"));
  const title = h("h2", { id: "source-title" }, "Source");
  const more = h("p", { class: "quiet" });
  const close = h("button", { type: "button", click: () => dialog.close() }, "Close");
  dialog.replaceChildren(h("header", {}, title, close), what.card ? h("p", { class: "told" }, told(what.card), " ", tags(what.card)) : "", body, more);
  dialog.showModal();
  try {
    const cited = what.citations ?? (await get(inSpace(space, "cards", what.card.id), {}, signal)).source?.citations ?? [];
    const id = what.card?.session_id ?? cited[0].session_id;
    const session = await get(inSpace(space, "sessions", id), {}, signal);
    title.textContent = dated(session);
    body.replaceChildren(conversation(whole(session), cited));
    more.replaceChildren(h("a", { href: href(space, "session", id) }, "Open the whole session"));
    if (what.card && !what.card.id.includes("#")) more.append("  ·  ", h("a", { href: href(space, "card", what.card.id) }, "Open the card"));
    toMark(body);
  } catch (error) {
    if (error.name !== "AbortError") body.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
  }
}
