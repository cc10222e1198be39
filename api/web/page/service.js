/** The HTTP API as this page uses it. Addresses are relative, so that a proxy may put the service below a path. */

const KEY = "ttopt-api-key";
/** Of files whose names the service does not tell. */
const SUFFIXES = { "text/html": ".html", "application/json": ".json" };
/** Jobs of a page of the list. */
const LISTED = 25;

/** An answer that is no success, with the service's problem document. */
export class Problem extends Error {
  constructor(document) {
    super(document.detail || document.title || "the service refused the request");
    this.document = document;
  }
}

export class Service {
  /** `askKey(problem or null)` resolves to a key, or null where none is given. */
  constructor(askKey) {
    this.askKey = askKey;
    this.asking = null;
  }

  get key() {
    return sessionStorage.getItem(KEY);
  }

  set key(key) {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  }

  headers() {
    return this.key ? { Authorization: `Bearer ${this.key}` } : {};
  }

  /** A response of status 2xx. Throws Problem, or an AbortError where `options.signal` says so. */
  async answer(path, options = {}) {
    for (;;) {
      const used = this.key;
      const response = await reached(() => fetch(path, { ...options, headers: { ...options.headers, ...this.headers() } }));
      if (response.ok) return response;
      const problem = await problemOf(response);
      if (response.status !== 401 || !(await this.newKey(used, problem))) throw problem;
    }
  }

  /** Whether there is now another key than the one that was refused. */
  async newKey(used, problem) {
    if (this.key !== used) return true;
    this.asking ??= this.askKey(used ? problem : null).finally(() => { this.asking = null; });
    const given = await this.asking;
    if (given === null) return false;
    this.key = given;
    return true;
  }

  async json(path, options) {
    const response = await this.answer(path, options);
    return reached(() => response.json());
  }

  async boards() {
    return names(await this.json("v1/boards"), "boards");
  }

  async policies() {
    return names(await this.json("v1/policies"), "policies");
  }

  jobs(cursor = null) {
    return this.json(`v1/jobs?kind=optimize&limit=${LISTED}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
  }

  job(id) {
    return this.json(`v1/jobs/${encodeURIComponent(id)}`);
  }

  cancel(id) {
    return this.json(`v1/jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
  }

  async artifacts(id) {
    const listed = await this.json(`v1/jobs/${encodeURIComponent(id)}/artifacts`);
    return Array.isArray(listed) ? listed : listed.artifacts;
  }

  /** The file of an artifact, its name or null, and what such files' names end with. One that is still being made is asked for again. */
  async artifact(id, name, signal = null) {
    const ask = () => this.answer(`v1/jobs/${encodeURIComponent(id)}/artifacts/${encodeURIComponent(name)}`, { signal });
    let response = await ask();
    while (response.status === 202) {
      await pause(1000 * (Number(response.headers.get("Retry-After")) || 1));
      response = await ask();
    }
    const named = /filename="([^"\\/]+)"/.exec(response.headers.get("Content-Disposition") ?? "");
    const suffix = SUFFIXES[(response.headers.get("Content-Type") ?? "").split(";")[0]] ?? "";
    return { blob: await reached(() => response.blob()), fileName: named && named[1], suffix };
  }

  /** Post a model. `told` hears which share has been sent: fetch does not tell, XMLHttpRequest does. */
  async submit(file, options, told) {
    for (;;) {
      const used = this.key;
      const answer = await this.upload(file, options, told);
      if (answer.status >= 200 && answer.status < 300) return JSON.parse(answer.responseText);
      const problem = new Problem(parsed(answer.responseText, answer.status));
      if (answer.status !== 401 || !(await this.newKey(used, problem))) throw problem;
    }
  }

  upload(file, options, told) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `v1/jobs?${new URLSearchParams(options)}`);
      for (const [name, value] of Object.entries(this.headers())) request.setRequestHeader(name, value);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.upload.addEventListener("progress", (event) => event.lengthComputable && told(event.loaded / event.total));
      request.addEventListener("load", () => resolve(request));
      request.addEventListener("error", () => reject(unreachable()));
      request.send(file);
    });
  }

  /**
   * Server-sent events of a job as `{kind, data}`, from the first on. A lost connection is taken up where it was; that it
   * is lost is an event `lost` where the service does not answer.
   */
  async *events(id, signal) {
    let last = null;
    let wait = 500;
    for (;;) {
      try {
        const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
        const response = await this.answer(`v1/jobs/${encodeURIComponent(id)}/events`, { headers, signal });
        for await (const event of parsedEvents(response.body)) {
          last = event.id ?? last;
          wait = 500;
          yield event;
          if (event.kind === "done") return;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.document.status !== 0 && error.document.status < 500) throw error;
        yield { kind: "lost", data: null };
      }
      await pause(wait);
      if (signal.aborted) return;
      wait = Math.min(2 * wait, 8000);
    }
  }
}

/** Events of a stream: blocks of `field: value` lines, an empty line behind each. */
async function* parsedEvents(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { kind: "message", id: null, data: "" };
      for (const line of block.split("\n")) {
        const [, field, text] = /^([^:]*):? ?(.*)$/s.exec(line);
        if (field === "event") event.kind = text;
        else if (field === "id") event.id = text;
        else if (field === "data") event.data += (event.data ? "\n" : "") + text;
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** What `ask` gives, where the connection holds. */
async function reached(ask) {
  try {
    return await ask();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
}

function unreachable() {
  return new Problem({ title: "Not reachable", status: 0, detail: "The service does not answer. Is it still running?" });
}

async function problemOf(response) {
  return new Problem(parsed(await response.text(), response.status));
}

function parsed(text, status) {
  try {
    const document = JSON.parse(text);
    if (document && typeof document === "object") return { status, ...document };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return { title: `Status ${status}`, status, detail: text.slice(0, 500) };
}

/** `[{name, description}]` of a list of names or records, by itself or under a key. */
function names(answer, key) {
  const listed = Array.isArray(answer) ? answer : answer[key];
  return listed.map((entry) => (typeof entry === "string" ? { name: entry } : entry));
}
