// A sender app in the browser: it claims tasks as an app_id while it is on, and reports what the viewer chooses.
import { onScopeDispose, reactive } from 'vue'
import { api, asApiError, call, type ApiError } from '@/api/client'
import type { Schema } from '@/api/types'
import { can } from '@/session'

export type Outcome = 'success' | 'failed' | 'retry'

/** A message that the phone holds, or has reported. */
export interface Held {
  task_id: string
  phone_number: string
  content: string
  attempt: number
  lease_until: string
  /** Unknown for a message that was claimed before the page was opened. */
  lease_id?: number
  reported: Outcome | null
  busy: boolean
  error: ApiError | null
}

const waitSeconds = 20
const pauseAfterError = 3_000
const keep = 50 // messages that are shown

export function usePhone() {
  const phone = reactive({
    on: false,
    appId: '',
    /** The most messages that it holds without a report. */
    most: 5,
    held: [] as Held[],
    error: null as ApiError | null,
    /** The sender, when the viewer may see it; it says why nothing comes. */
    sender: null as Schema<'Sender'> | null,
    answers: 0,
    /** Why it stopped by itself. */
    stopped: null as 'leftAlone' | 'hidden' | null,
  })
  let turn = 0
  let claim: AbortController | undefined
  let wake: (() => void) | undefined

  const open = () => phone.held.filter((one) => !one.reported && !over(one))

  function take(messages: Held[]) {
    const known = new Set(messages.map((one) => `${one.task_id} ${one.attempt}`))
    phone.held = [...messages, ...phone.held.filter((one) => !known.has(`${one.task_id} ${one.attempt}`))].slice(0, keep)
  }

  /** Shows messages that the app_id holds already, as after a reload of the page. */
  async function restore() {
    if (!can('listTasks')) return
    const { items } = await call(api.GET('/api/v1/sms/tasks', { params: { query: { status: 1, sender_no: phone.appId, limit: 20 } } }))
    const here = new Set(open().map((one) => one.task_id))
    take(
      items
        .filter((task) => !here.has(task.task_id) && task.lease_until)
        .map((task) => ({
          task_id: task.task_id,
          phone_number: task.phone_number,
          content: (task.sign ? `【${task.sign}】` : '') + task.content,
          attempt: task.retry_count + 1,
          lease_until: task.lease_until!,
          reported: null,
          busy: false,
          error: null,
        })),
    )
  }

  async function look() {
    if (!can('getSender')) return
    try {
      phone.sender = await call(api.GET('/api/v1/admin/senders/{sender_no}', { params: { path: { sender_no: phone.appId } } }))
    } catch {
      phone.sender = null
    }
  }

  async function run(mine: number) {
    try {
      await restore()
    } catch {
      // The messages come again when their leases run out.
    }
    while (mine === turn) {
      // Nobody looks: each further message would use an attempt, and fail in the end.
      const isLeftAlone = phone.held.some((one) => !one.reported && !one.busy && one.lease_id !== undefined && over(one))
      if (isLeftAlone || document.hidden) {
        stop()
        phone.stopped = isLeftAlone ? 'leftAlone' : 'hidden'
        return
      }
      const room = phone.most - open().length
      if (room <= 0) {
        // Until one is reported, or a lease runs out.
        await new Promise<void>((resolve) => {
          wake = resolve
          setTimeout(resolve, 1_000)
        })
        continue
      }
      claim = new AbortController()
      try {
        // The first claim does not wait: it registers an unknown app_id, so that its sender can be shown.
        const wait = phone.answers === 0 ? 0 : waitSeconds
        const tasks = await call(api.POST('/api/v1/sms/tasks/claim', { body: { app_id: phone.appId, limit: room, wait }, signal: claim.signal }))
        take(tasks.map((task) => ({ ...task, reported: null, busy: false, error: null })).reverse())
        if (mine !== turn) return
        phone.error = null
        phone.answers++
        if (phone.answers === 1 || tasks.length === 0) void look()
      } catch (error) {
        if (mine !== turn) return
        phone.error = asApiError(error)
        // Another app_id is needed: asking again would change nothing.
        if (phone.error.status >= 400 && phone.error.status < 500 && phone.error.status !== 429) return stop()
        await new Promise((resolve) => setTimeout(resolve, pauseAfterError))
      }
    }
  }

  function start(appId: string) {
    if (appId !== phone.appId) {
      phone.held = []
      phone.sender = null
    }
    phone.appId = appId
    phone.on = true
    phone.held = phone.held.filter((one) => one.reported || !over(one))
    phone.stopped = null
    phone.error = null
    phone.answers = 0
    void run(++turn)
  }

  function stop() {
    turn++
    phone.on = false
    claim?.abort()
    wake?.()
  }

  async function report(message: Held, outcome: Outcome, reason: string, retryAfter: number) {
    message.busy = true
    message.error = null
    try {
      await call(
        api.POST('/api/v1/sms/report', {
          body: {
            task_id: message.task_id,
            app_id: phone.appId,
            status: outcome === 'success' ? 2 : 3,
            ...(message.lease_id === undefined ? {} : { lease_id: message.lease_id }),
            ...(outcome === 'success' ? {} : { error_message: reason }),
            ...(outcome === 'retry' ? { should_retry: true, retry_after_seconds: retryAfter } : {}),
          },
        }),
      )
      message.reported = outcome
      wake?.()
    } catch (error) {
      message.error = asApiError(error)
    } finally {
      message.busy = false
    }
  }

  onScopeDispose(stop)
  return { phone, start, stop, report, restore }
}

/** Whether the lease of a message ran out: another sender may have it by now. */
export const over = (message: Held, now = Date.now()): boolean => new Date(message.lease_until).getTime() <= now
