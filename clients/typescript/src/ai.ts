/** Middleware for the AI SDK: `wrapLanguageModel({ model, middleware: withMemory(...) })`. */
import type {
  LanguageModelV4Middleware,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";
import { type Evidence, JustMemError, type Space } from "./index.js";

const NO_SPACE = "urn:justmem:problem:no-such-space";

export type MemoryOptions = {
  space: Space;
  /** Names the conversation. */
  session: string;
  /** The most that memory adds to a prompt, in tokens. Default: 1,500. */
  tokens?: number;
  /** Milliseconds that a chat waits for memory at most. Default: 10,000. */
  timeout?: number;
  /** Called with each error. The chat continues in any case. Default: console.warn. */
  onError?: (error: unknown) => void;
};

/** Recalls before each call and remembers after it. If memory fails, the chat continues. */
export function withMemory(options: MemoryOptions): LanguageModelV4Middleware {
  const { space, session, tokens = 1500, timeout = 10_000 } = options;
  const onError = options.onError ?? ((error) => console.warn("justmem:", error));

  async function tried<T>(work: () => Promise<T>): Promise<T | undefined> {
    const late = AbortSignal.timeout(timeout);
    const waited = new Promise<never>((_, fail) => {
      late.addEventListener("abort", () => fail(late.reason));
    });
    try {
      return await Promise.race([work(), waited]);
    } catch (error) {
      onError(error);
      return undefined;
    }
  }

  /** A space that does not exist yet holds nothing: that is no error. */
  async function recalled(question: string): Promise<Evidence | undefined> {
    try {
      return await space.recall(question, { prompt: tokens });
    } catch (error) {
      if (error instanceof JustMemError && error.problem.type === NO_SPACE) return undefined;
      throw error;
    }
  }

  async function remember(prompt: LanguageModelV4Prompt, reply: string): Promise<void> {
    const last = prompt.at(-1);
    const said = last?.role === "user" ? questionOf(prompt) : ""; // else a step of a tool loop
    const turns = [
      ...(said ? [{ role: "user" as const, content: said }] : []),
      ...(reply.trim() ? [{ role: "assistant" as const, content: reply }] : []),
    ];
    if (turns.length > 0) await tried(() => space.append(session, turns));
  }

  return {
    specificationVersion: "v4",
    async transformParams({ params }) {
      const question = questionOf(params.prompt);
      if (!question) return params;
      const found = await tried(() => recalled(question));
      if (!found?.prompt) return params;
      const lead = params.prompt.findIndex((each) => each.role !== "system");
      const prompt = [...params.prompt];
      prompt.splice(lead < 0 ? prompt.length : lead, 0, {
        role: "system",
        content: found.prompt,
      });
      return { ...params, prompt };
    },
    async wrapGenerate({ doGenerate, params }) {
      const result = await doGenerate();
      const texts = result.content.map((part) => (part.type === "text" ? part.text : ""));
      await remember(params.prompt, texts.join(""));
      return result;
    },
    async wrapStream({ doStream, params }) {
      const { stream, ...rest } = await doStream();
      let reply = "";
      let over = false;
      const finish = async () => {
        if (!over) {
          over = true;
          await remember(params.prompt, reply);
        }
      };
      const reader = stream.getReader();
      const passed = new ReadableStream<LanguageModelV4StreamPart>({
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) {
            await finish();
            controller.close();
            return;
          }
          if (value.type === "text-delta") reply += value.delta;
          controller.enqueue(value);
        },
        async cancel(reason) {
          await reader.cancel(reason);
          await finish(); // what was said until then
        },
      });
      return { stream: passed, ...rest };
    },
  };
}

/** The text of the user's last message. */
function questionOf(prompt: LanguageModelV4Prompt): string {
  for (const message of [...prompt].reverse()) {
    if (message.role === "user") {
      const texts = message.content.map((part) => (part.type === "text" ? part.text : ""));
      return texts.join("\n").trim();
    }
  }
  return "";
}
