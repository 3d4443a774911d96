// The differences of an audit entry.
import type { Schema } from '@/api/types'
import { formatTime } from '@/composables/format'
import { t } from '@/i18n'

export interface Difference {
  field: string
  before: string
  after: string
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/

/** A value of an entry for people. */
export function show(value: unknown): string {
  if (value === undefined) return ''
  if (value === null) return t('audit.nothing')
  if (value === '') return t('audit.emptyText')
  if (typeof value === 'boolean') return value ? t('common.yes') : t('common.no')
  if (typeof value === 'string') return time.test(value) ? formatTime(value) : value
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object')) return value.length ? value.join(', ') : t('audit.nothing')
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)
}

/** The fields that differ; of a new or deleted entity, those that hold something. */
export function differences(entry: Schema<'AuditEntry'>): Difference[] {
  const before = (entry.before ?? {}) as Record<string, unknown>
  const after = (entry.after ?? {}) as Record<string, unknown>
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const holds = (value: unknown) => value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)
  return names
    .filter((name) => (entry.action === 'changed' ? JSON.stringify(before[name]) !== JSON.stringify(after[name]) : holds(before[name]) || holds(after[name])))
    .map((field) => ({ field, before: show(before[field]), after: show(after[field]) }))
}
