// The client of the API. Types come from api/openapi.yaml; `call` turns an answer into its data, or throws an ApiError.
import createClient, { type Middleware } from 'openapi-fetch'
import type { paths } from './schema'
import { server } from '@/base'
import { language, t } from '@/i18n'
import { onRefused } from './lost'

/** A failed request. `fields` holds the sentence for each wrong field, by the name of the field. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number, // 0: no answer
    readonly reason: string,
    readonly fields: Record<string, string> = {},
    readonly requestId = '',
    readonly limit?: number,
    readonly page = '', // of the manual, on this server; empty: it has none
  ) {
    super(message)
  }
}

const headers: Middleware = {
  onRequest({ request }) {
    request.headers.set('Accept-Language', language.value === 'zh' ? 'zh-CN' : 'en')
    request.headers.set('X-Requested-With', 'console')
    return request
  },
}

// Numbers of other systems may be larger than JavaScript's numbers are exact (2^53): they stay texts.
const exact: Middleware = {
  async onResponse({ response }) {
    if (!response.headers.get('Content-Type')?.startsWith('application/json')) return undefined
    const text = await response.text()
    return new Response(exactNumbers(text), response)
  },
}

const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

function exactNumbers(json: string): string {
  if (!/\d{16}/.test(json)) return json
  return json.replace(tokens, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${token}"` : token))
}

/** A whole number of any size as the value of a query parameter. */
export const wholeNumber = (text: string): number => text.trim() as unknown as number

export const api = createClient<paths>({ baseUrl: server, credentials: 'same-origin', querySerializer: { array: { style: 'form', explode: true } } })
api.use(headers, exact)

interface Answer<D> {
  data?: D
  error?: unknown
  response: Response
}

interface Failure {
  message?: string
  docs?: string
  request_id?: string
  error?: { reason?: string; limit?: number; fields?: { field: string; message: string }[] }
}

/** The `data` of the envelope. */
export type Data<D> = D extends { data: infer T } ? T : undefined

/** Waits for an answer and returns the `data` of its envelope. A failure is an ApiError; after 401 the viewer also signs in again. */
export const call = async <D>(request: Promise<Answer<D>>): Promise<Data<D>> => ((await bodyOf(request)) as { data?: unknown } | undefined)?.data as Data<D>

/** As `call`, for a file: the request has `parseAs: 'blob'`. */
export const callFile = async (request: Promise<Answer<Blob>>): Promise<Blob> => (await bodyOf(request))!

async function bodyOf<D>(request: Promise<Answer<D>>): Promise<D | undefined> {
  let answer: Answer<D>
  try {
    answer = await request
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(t('common.error.network'), 0, 'network')
  }
  if (answer.response.ok) return answer.data
  const failure = (answer.error ?? {}) as Failure
  const { status } = answer.response
  if (status === 401 || status === 403) onRefused.run(status)
  const fields = Object.fromEntries((failure.error?.fields ?? []).map((field) => [field.field, field.message]))
  throw new ApiError(
    failure.message || t('common.error.status', { status }),
    status,
    failure.error?.reason ?? 'unknown',
    fields,
    failure.request_id ?? answer.response.headers.get('X-Request-Id') ?? '',
    failure.error?.limit,
    failure.docs?.startsWith('/') ? failure.docs : '',
  )
}

/** The body of a request with a form. Values that are empty are left out. */
export function formBody(values: Record<string, string | string[] | File | boolean | null | undefined>): never {
  const form = new FormData()
  for (const [name, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) ? value : [value]) if (item !== undefined && item !== null && item !== '') form.append(name, item instanceof File ? item : String(item))
  }
  return form as never // the types of the contract say texts
}

/** Any thrown value as an ApiError. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  console.error(error)
  return new ApiError(t('common.error.page'), 0, 'page')
}

/** A new word for the header Idempotency-Key. */
export const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
