import type { EventPage } from "./events.js"
import { LksmsError, type FieldError } from "./errors.js"
import { table, type Facts } from "./generated/operations.js"
import type { operations } from "./generated/schema.js"
import type { Schema } from "./schema.js"

/** A user name and a password or API key, or an API key alone. */
export type Credentials = { username: string; password: string } | { apiKey: string }

export interface ClientOptions {
  /** The server, such as https://sms.example. */
  baseUrl: string
  credentials?: Credentials
  /** Headers of every request, such as Accept-Language. */
  headers?: Record<string, string>
  /** Milliseconds for one attempt, 30,000 by default. The seconds of `wait` are added. */
  timeout?: number
  /** How often a request is tried again, 4 by default. */
  retries?: number
  /** The longest pause before another attempt, in milliseconds, 30,000 by default. A server that asks for more gets no further attempt. */
  longestPause?: number
  fetch?: typeof fetch
}

export interface CallOptions {
  /** Ends the call with the reason of the signal. */
  signal?: AbortSignal
  timeout?: number
  retries?: number
  /** The Idempotency-Key. Without one, each call makes its own, where the operation takes it. */
  idempotencyKey?: string
  /** Says that a second execution of this request does no harm, so that it is tried again after a lost connection. */
  repeatable?: boolean
}

/** The operationId of an operation of the contract. */
export type Operation = keyof typeof table & keyof operations

type Content<C> =
  | ("application/json" extends keyof C ? C["application/json"] : never)
  | ("multipart/form-data" extends keyof C ? FormData : never)

type Body<O extends Operation> = operations[O] extends { requestBody: { content: infer C } }
  ? { body: Content<C> }
  : operations[O] extends { requestBody?: never }
    ? unknown
    : operations[O] extends { requestBody?: { content: infer C } }
      ? { body?: Content<C> }
      : unknown

/** What an operation takes: `path`, `query` and `body`. */
export type Input<O extends Operation> = Omit<operations[O]["parameters"], "header" | "cookie"> & Body<O>

/** What an operation answers: the `data` of the envelope, or the text of a CSV file. */
export type Data<O extends Operation> = operations[O]["responses"][200] extends { content: infer C }
  ? "application/json" extends keyof C
    ? "data" extends keyof C["application/json"]
      ? C["application/json"]["data"]
      : undefined
    : string
  : never

type Arguments<O extends Operation> = {} extends Input<O>
  ? [input?: Input<O> & CallOptions]
  : [input: Input<O> & CallOptions]

interface AnyInput extends CallOptions {
  path?: Record<string, unknown>
  query?: Record<string, unknown>
  body?: unknown
}

export class LksmsClient {
  readonly #base: string
  readonly #headers: Headers
  readonly #options: ClientOptions
  readonly #fetch: typeof fetch
  /** Whether a call has succeeded. */
  #reached = false

  constructor(options: ClientOptions) {
    this.#base = options.baseUrl.replace(/\/+$/, "")
    this.#options = options
    // A browser refuses a fetch that is called as a method of another object.
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init))
    // These throw now: fetch would fail in a way that cannot be told from a lost connection.
    let base: URL | undefined
    try {
      base = new URL(this.#base)
    } catch {
      // The error of URL would repeat the address, which may hold a password.
    }
    if (!base || base.username || base.password || /[?#]/.test(this.#base)) {
      throw new TypeError("baseUrl must be an address such as https://lksms.example, without credentials, query and fragment")
    }
    this.#headers = new Headers(options.headers)
    if (options.credentials) this.#headers.set("Authorization", authorization(options.credentials))
  }

  /**
   * Calls an operation of the contract and returns the `data` of its answer. A failure is an LksmsError.
   *
   * An attempt that got 429 is repeated, except for `recipient.limited`: the server had refused it. After 502, 503, 504 and lost connections it is unknown whether the request was
   * executed, so only requests are repeated of which a second execution changes nothing: reads, those with an Idempotency-Key, and reports that all
   * have a lease_id.
   */
  async call<O extends Operation>(operation: O, ...[input]: Arguments<O>): Promise<Data<O>> {
    return (await this.#call(operation, (input ?? {}) as AnyInput)) as Data<O>
  }

  /** Submits a message. */
  send(message: Schema<"SendRequest">, options?: CallOptions): Promise<Data<"sendSms">> {
    return this.call("sendSms", { ...options, body: message })
  }

  /** Predicts what would happen to a message, and submits nothing. */
  dryRun(message: Schema<"SendRequest">, options?: CallOptions): Promise<Data<"sendSms">> {
    return this.call("sendSms", { ...options, query: { dry_run: true }, body: message })
  }

  task(task_id: string, options?: CallOptions): Promise<Data<"getTask">> {
    return this.call("getTask", { ...options, path: { task_id } })
  }

  /** Sends a code to a person. */
  startVerification(request: Schema<"VerificationRequest">, options?: CallOptions): Promise<Data<"startVerification">> {
    return this.call("startVerification", { ...options, body: request })
  }

  /**
   * Checks the code that a person entered: `approved` if it is right, `pending` if it is wrong. A verification that has ended is an LksmsError. A
   * check is not repeated after a lost connection, because a wrong code would be counted twice.
   */
  checkVerification(verification_id: string, code: string, options?: CallOptions): Promise<Data<"checkVerification">> {
    return this.call("checkVerification", { ...options, path: { verification_id }, body: { code } })
  }

  /** Reports the outcome of a task. With the lease_id of the claim, a repeat changes nothing. Without it, a repeat could end a later lease of the app. */
  report(report: Schema<"ReportRequest">, options?: CallOptions): Promise<undefined> {
    return this.call("reportTask", { ...options, body: report })
  }

  /**
   * Claims tasks for an app, without end, and yields each portion that is not empty. Break out of the loop, or abort the signal, to stop. Once a call
   * of the client has succeeded, it goes on while the server is away for long.
   * A claim whose answer is lost is repeated: its tasks come back when their lease has run out, with or without another claim.
   */
  async *claims(
    claim: Schema<"ClaimRequest">,
    options?: CallOptions,
  ): AsyncGenerator<Data<"claimTasksNow">, never, void> {
    for (;;) {
      const began = Date.now()
      const tasks = await this.#outlast(() => this.call("claimTasksNow", { repeatable: true, ...options, body: { wait: 30, ...claim } }), options?.signal)
      if (tasks.length > 0) yield tasks
      else await rest(began, options?.signal)
    }
  }

  /**
   * Pulls events, without end, and yields each page that has events or another cursor. Store `next_cursor` when the work for the items is done, and
   * pass it as `after` the next time. Without `after` the first page is empty: events begin with its cursor. Once a call of the client has succeeded,
   * it goes on while the server is away for long.
   */
  async *events(query: Input<"pullEvents">["query"] = {}, options?: CallOptions): AsyncGenerator<EventPage, never, void> {
    let after = query.after
    for (;;) {
      const began = Date.now()
      const pull = { ...options, query: after === undefined ? query : { wait: 30, ...query, after } }
      const page = (await this.#outlast(() => this.call("pullEvents", pull), options?.signal)) as EventPage // the contract does not tie the type of an event to its data
      const moved = page.next_cursor !== after
      after = page.next_cursor
      if (moved || page.items.length > 0) yield page
      else await rest(began, options?.signal)
    }
  }

  /**
   * Repeats what a server that is away or busy did not answer, until it is back. Before a call of the client has succeeded, the address may be wrong:
   * nobody would see that the loop waits for nothing.
   */
  async #outlast<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (;;) {
      try {
        return await act()
      } catch (error) {
        if (!this.#reached || !(error instanceof LksmsError) || !mayRepeat(error, true)) throw error
        await sleep((error.retryAfter ?? 8) * 1000, signal)
      }
    }
  }

  async #call(operation: Operation, input: AnyInput): Promise<unknown> {
    const facts: Facts = table[operation]
    const url = this.#base + fillPath(facts.path, input.path ?? {}) + queryString(input.query ?? {}, facts.commas ?? [])
    const headers = new Headers(this.#headers)
    const idempotencyKey = facts.key ? (input.idempotencyKey ?? newKey()) : undefined
    if (idempotencyKey) headers.set("Idempotency-Key", idempotencyKey)
    const init: RequestInit = { method: facts.method, headers, redirect: "manual" }
    if (input.body instanceof FormData) {
      init.body = input.body
    } else if (input.body !== undefined) {
      headers.set("Content-Type", "application/json")
      init.body = JSON.stringify(input.body)
    }
    const repeatable = facts.key ?? facts.repeatable ?? input.repeatable ?? (facts.reports === true && nameLeases(input.body))
    const timeout = (input.timeout ?? this.#options.timeout ?? 30_000) + waitOf(input) * 1000
    const retries = input.retries ?? this.#options.retries ?? 4
    for (let attempt = 0; ; attempt++) {
      try {
        const data = await this.#attempt(url, init, timeout, input.signal)
        this.#reached = true
        return data
      } catch (error) {
        if (error instanceof LksmsError) error.idempotencyKey = idempotencyKey
        if (!(error instanceof LksmsError) || attempt >= retries || !mayRepeat(error, repeatable)) throw error
        const pause = error.retryAfter === undefined ? backoff(attempt) : error.retryAfter * 1000
        if (pause > (this.#options.longestPause ?? 30_000)) throw error
        await sleep(pause, input.signal)
      }
    }
  }

  /** One request with its whole answer. An LksmsError says how it failed; an abort of the caller's signal throws the reason of the signal. */
  async #attempt(url: string, init: RequestInit, timeout: number, signal?: AbortSignal): Promise<unknown> {
    signal?.throwIfAborted()
    // AbortSignal.any would do this, but Safari before 17.4 and Node before 20.3 lack it.
    const attempt = new AbortController()
    const abort = () => attempt.abort()
    const timer = setTimeout(abort, timeout)
    signal?.addEventListener("abort", abort)
    try {
      const response = await this.#fetch(url, { ...init, signal: attempt.signal })
      return await read(response)
    } catch (error) {
      if (error instanceof LksmsError) throw error
      signal?.throwIfAborted()
      if (attempt.signal.aborted) {
        throw new LksmsError(`no answer within ${timeout} ms`, { status: 0, reason: "connection.timeout", cause: error })
      }
      if (isUntrusted(error)) {
        throw new LksmsError("the certificate of the server is not trusted", { status: 0, reason: "certificate.untrusted", cause: error })
      }
      throw new LksmsError("the connection was lost or could not be made", { status: 0, reason: "connection.lost", cause: error })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener("abort", abort)
    }
  }
}

/** Reads an answer to its end and returns its data. */
async function read(response: Response): Promise<unknown> {
  const text = await response.text()
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json") ?? false
  if (response.ok && response.headers.get("Content-Type")?.startsWith("text/csv")) return text
  let envelope: unknown
  if (isJson) {
    try {
      envelope = JSON.parse(text)
    } catch {
      // An answer that is not JSON does not come from LKSMS, and is reported below.
    }
  }
  if (response.ok && isObject(envelope) && typeof envelope.code === "number") return envelope.data
  throw failure(response, isObject(envelope) ? envelope : {})
}

function failure(response: Response, envelope: Record<string, unknown>): LksmsError {
  const error = isObject(envelope.error) ? envelope.error : {}
  const text = (value: unknown) => (typeof value === "string" ? value : undefined)
  const said = Number(response.headers.get("Retry-After") ?? NaN)
  return new LksmsError(text(envelope.message) ?? `the answer ${response.status} is not one of LKSMS`, {
    status: response.status,
    reason: text(error.reason) ?? "answer.unreadable",
    fields: Array.isArray(error.fields) ? (error.fields as FieldError[]) : [],
    docs: pageOf(response, text(envelope.docs)),
    requestId: text(envelope.request_id) ?? response.headers.get("X-Request-Id") ?? undefined,
    retryAfter: said >= 0 ? said : undefined,
    limit: typeof error.limit === "number" ? error.limit : undefined,
    oldest: text(error.oldest),
  })
}

/** The address of a page that an answer names. A path of the repository stays. */
function pageOf(response: Response, docs: string | undefined): string | undefined {
  return docs?.startsWith("/") && response.url ? new URL(docs, response.url).href : docs
}

function mayRepeat(error: LksmsError, repeatable: boolean): boolean {
  // A person who has got enough messages stays limited for longer than a caller waits.
  if (error.status === 429) return error.reason !== "recipient.limited"
  // The first request with this key is still in progress: its answer is kept, and is the answer to this one.
  if (error.reason === "idempotency.in_flight") return true
  // A redirect has the status 0 in browsers; it is not followed, and would come again.
  return repeatable && (error.reason.startsWith("connection.") || [502, 503, 504].includes(error.status))
}

/** Whether fetch failed over a certificate. Node says so in the code of the cause; browsers do not say why. */
function isUntrusted(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return isObject(cause) && typeof cause.code === "string" && /CERT|CRL|LEAF_SIGNATURE|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|HOSTNAME_MISMATCH/.test(cause.code)
}

/** Half a second, one, two, … up to eight, each up to a half less, so that many clients do not come back at once. */
function backoff(attempt: number): number {
  return Math.min(500 * 2 ** attempt, 8000) * (1 - Math.random() / 2)
}

/** Waits out the rest of a second since `began`: a server that shuts down answers waiting requests at once. */
async function rest(began: number, signal?: AbortSignal): Promise<void> {
  const left = began + 1000 - Date.now()
  if (left > 0) await sleep(left, signal)
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop)
      resolve()
    }, milliseconds)
    if (signal?.aborted) stop()
    else signal?.addEventListener("abort", stop, { once: true })
  })
}

/** Whether each report of a body, which is one report or several, names the lease that it ends. */
function nameLeases(body: unknown): boolean {
  const reports = isObject(body) && Array.isArray(body.reports) ? body.reports : [body]
  return reports.every((report) => isObject(report) && report.lease_id !== undefined && report.lease_id !== null)
}

/** The seconds that the request lets the server wait, from its query or body. */
function waitOf(input: AnyInput): number {
  const wait = input.query?.wait ?? (isObject(input.body) ? input.body.wait : undefined)
  return typeof wait === "number" ? wait : 0
}

function fillPath(path: string, values: Record<string, unknown>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? "")
    // A URL has no such segment: these would lead to another operation.
    if (value === "" || value === "." || value === "..") throw new TypeError(`${name} cannot be part of a path: ${JSON.stringify(value)}`)
    return encodeURIComponent(value)
  })
}

function queryString(values: Record<string, unknown>, commas: readonly string[]): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) && !commas.includes(name) ? value : [value]) {
      if (item !== undefined && item !== null) query.append(name, String(item))
    }
  }
  const text = query.toString()
  return text === "" ? "" : "?" + text
}

function authorization(credentials: Credentials): string {
  if ("apiKey" in credentials) return "Bearer " + credentials.apiKey
  const bytes = new TextEncoder().encode(`${credentials.username}:${credentials.password}`)
  return "Basic " + btoa(String.fromCharCode(...bytes))
}

// crypto.randomUUID exists on pages with https only.
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}
