// The HTTP API: requests, problem documents (RFC 9457), and what this installation offers.

const TIMEOUT_MS = 20_000; // an operation waits 10 s for its decision
export const LONG_MS = 120_000; // what is done to many messages takes its time

/** The server refused. `document` is its problem document, as it came. */
export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? document.title ?? `status ${document.status}`);
    this.document = document;
  }

  get type() {
    return String(this.document.type ?? "").replace(/^.*\/problems\//, "");
  }

  /** It is not there on this installation, rather than broken. */
  get isUnavailable() {
    return this.type === "not-supported" || this.document.status === 501;
  }
}

/**
 * The session of this page: its token goes with every request. It is known to the page alone: a script of another site
 * can send the cookie at most.
 */
let token = null;
let whenRefused = () => {};

export function useToken(given) {
  token = given;
}

/** `act()` is called where a request was refused (401) because the server does not know who asks. */
export function onUnauthenticated(act) {
  whenRefused = act;
}

/** No answer came: the server is gone, or the network, or it took too long. */
export class Unreachable extends Error {}

/** `body` is what shall become JSON, or JSON text already; the answer's is null where there is none. */
export async function request(method, path, { query, body, headers = {}, signal, timeoutMs = TIMEOUT_MS } = {}) {
  const shown = token;
  const answer = await sent(method, address(path, query), body, headers, signal, timeoutMs);
  const text = await read(answer);
  const content = parsed(text);
  if (answer.ok) return { status: answer.status, body: content };
  if (answer.status === 401 && shown === token) whenRefused(); // else of a session before this one
  throw new Problem(asProblem(answer, content));
}

export async function get(path, query, signal) {
  return (await request("GET", path, { query, signal })).body;
}

export async function post(path, body, timeoutMs) {
  return (await request("POST", path, { body, timeoutMs })).body;
}

/** `path` is relative to the page, so that the console works behind a proxy's prefix, too. */
export function address(path, query = {}) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

/** A segment of a path, whatever it holds. Colons stay: they name actions, and stand in ids. */
export function segment(text) {
  return encodeURIComponent(text).replaceAll("%3A", ":");
}

async function sent(method, url, body, given, signal, timeoutMs) {
  const headers = { accept: "application/json, application/problem+json", "delayline-request": "1", ...given };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token !== null) headers["x-csrf-token"] = token;
  const timeout = AbortSignal.timeout(timeoutMs);
  const options = {
    method,
    headers,
    body: typeof body === "string" ? body : JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    cache: "no-store",
  };
  try {
    return await fetch(url, options);
  } catch (error) {
    throw unanswered(error);
  }
}

async function read(answer) {
  try {
    return await answer.text();
  } catch (error) {
    throw unanswered(error);
  }
}

function unanswered(error) {
  if (error.name === "AbortError") return error;
  if (error.name === "TimeoutError") return new Unreachable("no answer in time");
  return new Unreachable("no connection to the server");
}

function parsed(text) {
  if (text === "") return null;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whatever stands between us and the server may answer, too, and not in problem documents. */
function asProblem(answer, content) {
  if (content && typeof content === "object" && "type" in content) return { status: answer.status, ...content };
  return {
    type: "about:blank",
    title: answer.statusText || "An answer that is no problem document",
    status: answer.status,
    detail: `status ${answer.status} from ${new URL(answer.url).host}, without a problem document`,
  };
}

/** What the OpenAPI document of this installation names. Where it cannot be read, everything is tried. */
class Offer {
  constructor(openapi) {
    this.operations = null;
    this.schemas = openapi?.components?.schemas ?? {};
    if (!openapi?.paths) return;
    this.operations = new Map();
    for (const [path, methods] of Object.entries(openapi.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        this.operations.set(`${method.toUpperCase()} ${generic(path)}`, operation);
      }
    }
  }

  /** `has("POST /v1/topics/{}:pause")` */
  has(operation) {
    return this.operations === null || this.operations.has(operation);
  }

  /** Whether an operation takes a query parameter. */
  takes(operation, parameter) {
    return this.operations === null || this.names(operation, "query", parameter);
  }

  /** Whether an operation heeds a request header. */
  heeds(operation, header) {
    return this.names(operation, "header", header);
  }

  names(operation, where, name) {
    const known = this.operations?.get(operation)?.parameters ?? [];
    return known.some((given) => given.in === where && given.name.toLowerCase() === name.toLowerCase());
  }

  /** Whether a body may have a field: one that may only be null is not built. */
  field(schema, name) {
    const properties = this.schemas[schema]?.properties;
    return !properties || (name in properties && properties[name].type !== "null");
  }
}

function generic(path) {
  return path.replace(/\{[^}]*\}/g, "{}");
}

export async function readOffer() {
  try {
    return new Offer(await get("openapi.json"));
  } catch {
    return new Offer(null);
  }
}
