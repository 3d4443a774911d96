// The kinds of alert rules: what their threshold means, and which fields they take.
import type { Schema } from '@/api/types'
import type { Tone } from '@/components/StatusTag.vue'
import { formatDuration, formatNumber, formatPercent } from '@/composables/format'
import { t } from '@/i18n'

export type Alert = Schema<'Alert'>
export type Rule = Schema<'AlertRule'>
export type Receiver = Schema<'AlertReceiver'>
export type Kind = Schema<'AlertKind'>
export type Level = Schema<'AlertLevel'>

type Unit = 'seconds' | 'tasks' | 'share' | 'segments' | 'messages' | 'days' | 'differences'
export type Filter = 'company_no' | 'channel' | 'sender_no'

interface Traits {
  /** What the threshold counts; left out for kinds without one. */
  unit?: Unit
  window?: true
  filters: Filter[]
  /** Only one of the filters may be set. */
  oneFilter?: true
}

const senders: Filter[] = ['channel', 'sender_no']

export const kinds: Record<Kind, Traits> = {
  wait_time: { unit: 'seconds', filters: ['company_no', 'channel'] },
  queue_depth: { unit: 'tasks', filters: ['company_no'] },
  failure_rate: { unit: 'share', window: true, filters: ['company_no', 'channel', 'sender_no'], oneFilter: true },
  pool_unserved: { filters: ['company_no', 'channel'] },
  sender_silent: { unit: 'seconds', filters: senders },
  sender_failing: { unit: 'share', window: true, filters: senders },
  balance_low: { unit: 'segments', filters: senders },
  provider_trouble: { filters: senders },
  receipts_missing: { unit: 'messages', window: true, filters: senders },
  receipts_unmatched: { unit: 'messages', window: true, filters: senders },
  disk_low: { unit: 'share', filters: [] },
  partition_missing: { unit: 'days', filters: [] },
  history_overdue: { unit: 'days', filters: [] },
  webhook_failing: { unit: 'seconds', filters: [] },
  statement_differs: { unit: 'differences', filters: senders },
  codes_suspected: { filters: ['company_no'] },
}

export const levels: Level[] = ['warning', 'critical', 'emergency']
export const levelTones: Record<Level, Tone> = { warning: 'warn', critical: 'bad', emergency: 'bad' }

export function formatThreshold(kind: Kind, value: number): string {
  const { unit } = kinds[kind]
  if (unit === 'seconds') return formatDuration(value)
  return unit === 'share' ? formatPercent(value, 2) : formatNumber(value, 2)
}

/** What a rule watches for, as a sentence. */
export function condition(rule: Pick<Rule, 'kind' | 'level' | 'threshold' | 'window_seconds'>): string {
  const { kind, threshold } = rule
  const window = formatDuration(rule.window_seconds)
  if (threshold !== null) return t(`alerts.conditions.${kind}`, { threshold: formatThreshold(kind, threshold), window })
  return kind === 'wait_time' || kind === 'balance_low' ? t(`alerts.unset.${kind}`) : t(`alerts.conditions.${kind}`, { threshold: '–', window })
}

/** What a rule or an alert is narrowed to. */
export const scope = (of: { company_no: string | null; channel: string | null; sender_no: string | null }): string =>
  [of.company_no && t('alerts.scope.company', { no: of.company_no }), of.channel && t('alerts.scope.channel', { no: of.channel }), of.sender_no && t('alerts.scope.sender', { no: of.sender_no })].filter(Boolean).join(t('alerts.scope.and'))

export const isSilenced = (rule: Rule, now = Date.now()): boolean => rule.silenced_until !== null && Date.parse(rule.silenced_until) > now
