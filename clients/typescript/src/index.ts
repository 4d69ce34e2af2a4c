/** Client of a JustMem server. The types come from its OpenAPI document; nothing generated runs. */
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];
export type Answer = Schemas["Answer"];
export type Card = Schemas["Card"];
export type Evidence = Schemas["EvidenceView"];
export type Plan = Schemas["PlanParts"];
export type Problem = Schemas["Problem"];
export type Remembered = Schemas["Remembered"];
export type Turn = { role: "user" | "assistant"; content: string };
export type Question = { at?: string; speaker?: string; plan?: Partial<Plan> };
export type Recall = Question & {
  /** Adds a block for a model's prompt, of at most this many tokens. */
  prompt?: number;
  limit?: number;
  labels?: Record<string, string>;
  sessions?: string[];
  since?: string;
  until?: string;
  as_of?: string;
};

export type Options = {
  url: string;
  key?: string;
  /** Tries after the first where the server is busy (429, 503). Default: 2. */
  retries?: number;
  /** Milliseconds for one request. Default: 60,000. */
  timeout?: number;
  fetch?: typeof fetch;
};

/** An error of the server: `problem` says what went wrong and what to do. */
export class JustMemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "JustMemError";
  }
  get status(): number {
    return this.problem.status;
  }
}

export class JustMem {
  readonly #options: Required<Omit<Options, "key">> & { key?: string };

  constructor(options: Options) {
    this.#options = { retries: 2, timeout: 60_000, fetch: globalThis.fetch, ...options };
  }

  /** The memory of one person. */
  space(name: string): Space {
    return new Space(this, name);
  }

  /** One request: the parsed answer, or a JustMemError. */
  async request<T>(method: string, path: string, body?: unknown): Promise<T> {
    const { url, key, retries, timeout, fetch } = this.#options;
    const headers: Record<string, string> = { accept: "application/json" };
    if (key) headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    for (let attempt = 0; ; attempt++) {
      const answer = await fetch(url.replace(/\/$/, "") + path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(timeout),
      });
      if (answer.ok) return (await answer.json()) as T;
      const busy = answer.status === 429 || answer.status === 503;
      if (!busy || attempt >= retries) throw new JustMemError(await problemOf(answer));
      await answer.body?.cancel();
      const seconds = Number(answer.headers.get("retry-after") ?? 2 ** attempt);
      await new Promise((done) => setTimeout(done, Math.min(seconds, 30) * 1000));
    }
  }
}

export class Space {
  readonly #path: string;

  constructor(
    readonly client: JustMem,
    readonly name: string,
  ) {
    this.#path = `/v1/spaces/${encodeURIComponent(name)}`;
  }

  /** Stores a session. With `wait` it returns when the cards are made. */
  remember(
    turns: Turn[],
    options: { id?: string; at?: string; wait?: boolean } = {},
  ): Promise<Remembered> {
    const { wait, ...session } = options;
    const path = `${this.#path}/sessions${wait ? "?wait=true" : ""}`;
    return this.client.request("POST", path, { ...session, turns });
  }

  /** Adds turns to a session, which is made where it is missing. */
  append(id: string, turns: (Turn & { key?: string })[]): Promise<Remembered> {
    const path = `${this.#path}/sessions/${encodeURIComponent(id)}/turns`;
    return this.client.request("POST", path, { turns });
  }

  /** The evidence for a question. */
  recall(question: string, options: Recall = {}): Promise<Evidence> {
    return this.client.request("POST", `${this.#path}/recall`, { question, ...options });
  }

  ask(question: string, options: Question = {}): Promise<Answer> {
    return this.client.request("POST", `${this.#path}/ask`, { question, ...options });
  }

  /** Stores a text as it is. A note with the same key is replaced. */
  note(key: string, note: Partial<Schemas["NoteIn"]> & { text: string }): Promise<Card> {
    return this.client.request("PUT", `${this.#path}/notes/${encodeURIComponent(key)}`, note);
  }

  noteAt(key: string): Promise<Schemas["Note"]> {
    return this.client.request("GET", `${this.#path}/notes/${encodeURIComponent(key)}`);
  }

  notes(prefix = ""): Promise<Schemas["Note"][]> {
    return this.client.request("GET", `${this.#path}/notes?${new URLSearchParams({ prefix })}`);
  }

  /** Replaces a card by a corrected one, which has another id. */
  correct(card: string, changes: Partial<Schemas["Changes"]>): Promise<Card> {
    return this.client.request("PATCH", `${this.#path}/cards/${encodeURIComponent(card)}`, changes);
  }

  pin(card: string): Promise<Card> {
    return this.client.request("PUT", `${this.#path}/cards/${encodeURIComponent(card)}/pin`);
  }

  unpin(card: string): Promise<Card> {
    return this.client.request("DELETE", `${this.#path}/cards/${encodeURIComponent(card)}/pin`);
  }

  /** Takes back the last correction, pin or unpin of a card. */
  undo(card: string): Promise<Card> {
    return this.client.request("POST", `${this.#path}/cards/${encodeURIComponent(card)}/undo`);
  }

  /** What was true when, of a person or of a card. */
  history(of: { subject: string } | { card: string }): Promise<Schemas["HistoryEntry"][]> {
    return this.client.request("GET", `${this.#path}/history?${new URLSearchParams(of)}`);
  }

  /** Short lines about a person. Default: the person whom most cards are about. */
  profile(subject?: string): Promise<Schemas["SubjectProfile"]> {
    const query = subject === undefined ? "" : `?${new URLSearchParams({ subject })}`;
    return this.client.request("GET", `${this.#path}/profile${query}`);
  }

  /** Makes the cards of a session, or of all, again. */
  rebuild(session?: string): Promise<Schemas["Queued"]> {
    const query = session === undefined ? "" : `?${new URLSearchParams({ session })}`;
    return this.client.request("POST", `${this.#path}/rebuild${query}`);
  }

  forget(what: Partial<Schemas["Forget"]>): Promise<Schemas["Preview"]> {
    return this.client.request("POST", `${this.#path}/forget`, what);
  }

  sessions(): Promise<Schemas["SessionRecord"][]> {
    return this.client.request("GET", `${this.#path}/sessions`);
  }

  session(id: string): Promise<Schemas["Session"]> {
    return this.client.request("GET", `${this.#path}/sessions/${encodeURIComponent(id)}`);
  }

  stats(): Promise<Schemas["Stats"]> {
    return this.client.request("GET", this.#path);
  }
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.detail === "string") return problem;
  } catch {
    // Not from our server: a proxy in front of it, perhaps.
  }
  const detail = text.slice(0, 200) || answer.statusText;
  const { status } = answer;
  return { type: "about:blank", title: "Refused", status, detail, instance: "", error: null };
}
