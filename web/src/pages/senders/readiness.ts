// Why a sender is not ready, and how much of its limits it used.
import type { Tone } from '@/components/StatusTag.vue'
import type { Schema } from '@/api/types'
import { formatAgo, formatNumber, formatTime } from '@/composables/format'
import { t } from '@/i18n'

export type Sender = Schema<'Sender'>

export interface Standing {
  tone: Tone
  /** The state in one or two words. */
  word: string
  /** The reason in a sentence; empty: none is needed. */
  reason: string
}

export interface Use {
  window: 'minute' | 'hour' | 'day' | 'month'
  used: number
  limit: number
  /** From 0 to 1, or more. */
  share: number
}

/** The limits of a sender with their use. Windows without a limit are left out. */
export function usesOf(sender: Sender): Use[] {
  const windows = [
    ['minute', sender.limits.per_minute],
    ['hour', sender.limits.per_hour],
    ['day', sender.limits.per_day],
    ['month', sender.limits.per_month],
  ] as const
  return windows.flatMap(([window, limit]) => {
    if (limit === null || limit === undefined) return []
    const used = sender.used[window]
    return [{ window, used, limit, share: limit > 0 ? used / limit : 1 }]
  })
}

/** Whether the balance lets the sender send. */
export const hasFunds = (sender: Sender): boolean => sender.balance === null || (sender.balance > 0 && sender.balance > (sender.low_switch ?? 0))

const isLow = (sender: Sender): boolean => sender.balance !== null && sender.low_warning !== null && sender.balance <= sender.low_warning

/** Whether the present is in the hours of a sender. */
function isInHours(sender: Sender): boolean {
  if (sender.hours === null) return true
  const now = new Intl.DateTimeFormat('en-GB', { timeZone: sender.time_zone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format()
  const [from = '', to = ''] = sender.hours.split('-')
  return from < to ? now >= from && now < to : now >= from || now < to // the second kind of hours contains midnight
}

/** Whether the circuit breaker is open because no link to the carrier is. It closes when one opens: no message is tried before. */
export const isUnbound = (sender: Sender): boolean => !!sender.pause?.reason.startsWith('not_bound')

/** Why a sender of a kind is not ready, if its fields show no reason; other kinds: its interval. */
const unready: Partial<Record<Sender['kind'], string>> = { app: 'intervalOrSims', smpp: 'intervalOrLinks', cmpp: 'intervalOrLinks' }

/** The state of a sender. A reason that somebody must remove comes first. `silent`: the live figures say that it has not polled lately. */
export function standingOf(sender: Sender, silent = sender.is_silent): Standing {
  if (sender.status === 'retired') return { tone: 'idle', word: t('senders.state.retired'), reason: t('senders.reason.retired') }
  if (sender.status === 'off') return { tone: 'idle', word: t('senders.state.off'), reason: t('senders.reason.off') }
  if (!hasFunds(sender)) return { tone: 'bad', word: t('senders.state.noFunds'), reason: t('senders.reason.noFunds', { balance: formatNumber(sender.balance), least: formatNumber(sender.low_switch ?? 0) }) }
  if (sender.kind === 'app') {
    if (!sender.seen_at) return { tone: 'warn', word: t('senders.state.neverSeen'), reason: t('senders.reason.neverSeen') }
    if (silent)
      return { tone: 'warn', word: t('senders.state.silent'), reason: t('senders.reason.silent', { ago: formatAgo(sender.seen_at) }) }
  }
  const full = usesOf(sender).find((use) => use.used >= use.limit)
  if (full) return { tone: 'warn', word: t('senders.state.noQuota'), reason: t(`senders.reason.noQuota.${full.window}`, { limit: formatNumber(full.limit) }) }
  if (!isInHours(sender)) {
    const [from = '', to = ''] = sender.hours?.split('-') ?? []
    return { tone: 'idle', word: t('senders.state.outsideHours'), reason: t('senders.reason.outsideHours', { from, to, zone: sender.time_zone }) }
  }
  if (isUnbound(sender)) return { tone: 'bad', word: t('senders.state.paused'), reason: t('senders.reason.unbound', { reason: sender.pause?.reason ?? '' }) }
  if (sender.pause) {
    const until = formatTime(sender.pause.until)
    const trying = sender.pause.state === 'half_open'
    return { tone: 'bad', word: t('senders.state.paused'), reason: t(trying ? 'senders.reason.trying' : 'senders.reason.paused', { until, reason: sender.pause.reason }) }
  }
  if (!sender.is_ready) return { tone: 'warn', word: t('senders.state.notReady'), reason: t(`senders.reason.${unready[sender.kind] ?? 'interval'}`) }
  if (isLow(sender)) return { tone: 'good', word: t('senders.state.ready'), reason: t('senders.reason.low', { balance: formatNumber(sender.balance) }) }
  return { tone: 'good', word: t('senders.state.ready'), reason: '' }
}

/** Why a sender cannot take a message, in words. */
export const whyText = (why: Schema<'SenderView'>['why']): string => t(`senders.why.${why ?? 'off'}`)
