// The access key: kept for this tab alone.

import { key } from "./api.js";
import { field, h } from "./dom.js";

export function keyView({ refused = false, done = () => (location.hash = "#/") }) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, placeholder: "jm_…" });
  const submit = (event) => {
    event.preventDefault();
    key.set(input.value.trim());
    done();
  };
  const drop = () => {
    key.drop();
    done();
  };
  return [
    h("h1", {}, "Access key"),
    refused && h("p", { class: "wrong", role: "alert" }, "This key is not known to the server, or was revoked."),
    h("form", { class: "narrow", submit },
      field("Key", input, "Stored in this tab until it is closed, and sent only to this server."),
      h("div", { class: "actions" },
        h("button", { class: "main" }, "Use this key"),
        key.get() && h("button", { type: "button", click: drop }, "Remove the current key"))),
    h("p", { class: "quiet" }, "The server’s owner makes keys with ", h("code", {}, "justmem keys add NAME --opens SPACE"), "."),
  ].filter(Boolean);
}
