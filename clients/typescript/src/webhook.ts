import type { PostedEvent } from "./events.js"

export interface WebhookPost {
  /** The headers of the request: those of fetch, or of Node's IncomingMessage. */
  headers: Headers | Record<string, string | string[] | undefined>
  /** The body as it came, not parsed: another spelling of the same JSON has another signature. */
  body: string | Uint8Array
  /** The secret of the webhook, or several while one is being replaced: `whsec_…`. */
  secret: string | string[]
  /** How many seconds the post may be old, or ahead of this clock; 300 by default. */
  tolerance?: number
  /** The time of this clock in milliseconds. */
  now?: number
}

export type WebhookReason = "headers" | "timestamp" | "signature" | "body"

/** A post that is not to be believed. Answer it with 400. */
export class WebhookError extends Error {
  override readonly name = "WebhookError"
  constructor(
    message: string,
    readonly reason: WebhookReason,
  ) {
    super(message)
  }
}

const prefix = "whsec_"
const mostSignatures = 20

/**
 * Verifies a post as Standard Webhooks says, and returns its event. A post that is not signed with the secret, or is too old, is a WebhookError.
 * An event may come twice: ignore an `id` that was taken before.
 */
export async function verifyWebhook(post: WebhookPost): Promise<PostedEvent> {
  const id = header(post.headers, "webhook-id")
  const timestamp = header(post.headers, "webhook-timestamp")
  const signatures = header(post.headers, "webhook-signature")
  if (!id || !timestamp || !signatures) {
    throw new WebhookError("webhook-id, webhook-timestamp or webhook-signature is missing", "headers")
  }
  if (!/^\d{1,15}$/.test(timestamp)) throw new WebhookError("webhook-timestamp is not a time in seconds", "timestamp")
  const age = (post.now ?? Date.now()) / 1000 - Number(timestamp)
  if (Math.abs(age) > (post.tolerance ?? 300)) throw new WebhookError("webhook-timestamp is too old or too new", "timestamp")

  const body = typeof post.body === "string" ? new TextEncoder().encode(post.body) : post.body
  const head = new TextEncoder().encode(`${id}.${timestamp}.`)
  const signed = new Uint8Array(head.length + body.length)
  signed.set(head)
  signed.set(body, head.length)
  if (!(await isSigned(signed, signatures, [post.secret].flat()))) {
    throw new WebhookError("no signature is that of the secret", "signature")
  }
  try {
    const event = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as PostedEvent
    return { ...event, id }
  } catch {
    throw new WebhookError("the body is not JSON", "body")
  }
}

async function isSigned(signed: Uint8Array<ArrayBuffer>, signatures: string, secrets: string[]): Promise<boolean> {
  const given: Uint8Array<ArrayBuffer>[] = []
  for (const signature of signatures.split(" ").slice(0, mostSignatures)) {
    const bytes = signature.startsWith("v1,") ? fromBase64(signature.slice(3)) : undefined
    if (bytes) given.push(bytes)
  }
  for (const secret of secrets) {
    const bytes = secret.startsWith(prefix) ? fromBase64(secret.slice(prefix.length)) : undefined
    if (!bytes || bytes.length === 0) throw new TypeError(`a secret of a webhook is ${prefix} and base64`)
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"])
    // WebCrypto compares in constant time.
    for (const signature of given) if (await crypto.subtle.verify("HMAC", key, signature, signed)) return true
  }
  return false
}

function header(headers: WebhookPost["headers"], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return Array.isArray(found) ? found.join(" ") : found
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
