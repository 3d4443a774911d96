/** A field that the server refused, and why. */
export interface FieldError {
  field: string
  message: string
}

/** A request that failed. Branch on `reason`: it is stable, and `message` is for people. */
export class LksmsError extends Error {
  override readonly name = "LksmsError"
  /** The HTTP status, or 0 if no answer came. */
  readonly status: number
  /** The word of the contract, or `connection.lost`, `connection.timeout`, `certificate.untrusted` or `answer.unreadable`. */
  readonly reason: string
  readonly fields: FieldError[]
  /** The address of the page that explains the error, or the path of a document in the repository if the server has no pages. */
  readonly docs: string | undefined
  /** Identifies the request in the server's log. */
  readonly requestId: string | undefined
  /** Seconds to wait before another attempt. */
  readonly retryAfter: number | undefined
  /** The limit that was reached, with the reason `limit.reached`. */
  readonly limit: number | undefined
  /** The key of the request, if it had one: to repeat the call after an unknown outcome without doing it twice, pass it. */
  idempotencyKey: string | undefined
  /** The oldest cursor of events that still exist, with the reason `events.cursor_gone`. */
  readonly oldest: string | undefined

  constructor(
    message: string,
    facts: {
      status: number
      reason: string
      fields?: FieldError[] | undefined
      docs?: string | undefined
      requestId?: string | undefined
      retryAfter?: number | undefined
      limit?: number | undefined
      oldest?: string | undefined
      cause?: unknown
    },
  ) {
    super(message, { cause: facts.cause })
    this.status = facts.status
    this.reason = facts.reason
    this.fields = facts.fields ?? []
    this.docs = facts.docs
    this.requestId = facts.requestId
    this.retryAfter = facts.retryAfter
    this.limit = facts.limit
    this.oldest = facts.oldest
  }
}
