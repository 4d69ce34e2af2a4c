// The server's HTTP interface, and nothing beside it.

const KEY = "justmem.key"; // in this tab alone, gone when it is closed
const BASE = new URL(".", document.baseURI);

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => (sessionStorage.setItem(KEY, value), stale()),
  drop: () => (sessionStorage.removeItem(KEY), stale()),
};

/** What is on hold from before must not be shown again: it may be forgotten, or another's. */
export const stale = () => dispatchEvent(new Event("stale"));

const part = encodeURIComponent;
export const inSpace = (space, ...parts) => ["v1/spaces", part(space), ...parts.map(part)].join("/");

export async function get(path, query = {}, signal) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return (await sent(url, { signal })).json();
}

export async function post(path, body, signal) {
  return (await sent(new URL(path, BASE), { ...json(body), signal })).json();
}

export async function erase(path, { verify = false } = {}) {
  const url = new URL(path, BASE);
  if (verify) url.searchParams.set("verify", "true");
  return (await sent(url, { method: "DELETE" })).json();
}

const json = (body) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body ?? {}),
});

async function sent(url, options, patience = 3) {
  const headers = new Headers(options.headers);
  if (key.get()) headers.set("authorization", `Bearer ${key.get()}`);
  let response;
  try {
    response = await fetch(url, { ...options, headers, credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer: is it still running?");
  }
  if (response.ok) return response;
  const after = Number(response.headers.get("retry-after"));
  if (response.status === 429 && patience && after <= 5) {
    await new Promise((done) => setTimeout(done, after * 1000));
    return sent(url, options, patience - 1);
  }
  const problem = await response.json().catch(() => ({}));
  throw new Problem(response.status, problem.detail ?? `The server answered ${response.status}.`);
}
