// What the pages of batches know about a batch.
import type { Schema } from '@/api/types'
import type { Tone } from '@/components/StatusTag.vue'
import usual from './columns.json' // the names that the server knows: a test of internal/audience/batch/source keeps the file

export type Batch = Schema<'Batch'>

export const batchStatuses: Schema<'BatchStatus'>[] = ['checking', 'ready', 'running', 'paused', 'finished', 'cancelled']

export const batchTones: Record<Schema<'BatchStatus'>, Tone> = { checking: 'busy', ready: 'warn', running: 'busy', paused: 'warn', finished: 'good', cancelled: 'idle' }

/** Whether its figures change by themselves. */
export const isMoving = ({ status, counts }: Batch): boolean => status === 'checking' || status === 'running' || counts.processing > 0

/** Whether only a colleague, or its `expires_at`, can change it: it is asked for rarely. */
export const isStill = (batch: Batch): boolean => batch.status === 'paused' && !isMoving(batch)

/** How many seconds pass between two questions for a batch that is still. */
export const stillSeconds = 30

/** The messages that have ended. */
export const ended = ({ counts }: Batch): number => counts.success + counts.failed + counts.cancelled

export const share = (batch: Batch): number => (batch.counts.valid === 0 ? 0 : Math.floor((ended(batch) / batch.counts.valid) * 100))

/** The column with the signature of each row, if one has a usual name and the text does not use it. */
export function signColumn(columns: string[], used: string[], phone: string): string {
  for (const name of usual.signs) {
    const column = columnOf(columns, name)
    if (column !== undefined && column !== phone && !used.includes(column)) return column
  }
  return ''
}

const plain = (name: string): string => name.normalize('NFKC').replace(/\s/g, '').toLowerCase()

/** The column that a name means: letters of another case or width make no difference, as on the server. */
export function columnOf(columns: string[], name: string): string | undefined {
  if (columns.includes(name)) return name
  const alike = columns.filter((column) => plain(column) === plain(name))
  return alike.length === 1 ? alike[0] : undefined
}

/** The channels that LKSMS brings. Another one can be typed in. */
export const channels = ['sms', 'email', 'dingtalk', 'wechat', 'oa'] as const

/** The field of a contact with its address on a channel. */
export const addressField = (channel: string) => (({ sms: 'phone', email: 'email', dingtalk: 'dingtalk_name', wechat: 'wechat_openid' }) as const)[channel] ?? 'user_id'

/** The column with the addresses on a channel: one with a usual name, the only one, or the first one whose values look like phone numbers. */
export function addressColumn({ columns, rows }: Schema<'ListPreview'>, channel: string): string {
  const names = (usual.addresses as Record<string, string[]>)[channel] ?? usual.addresses.oa
  const first = columnOf(columns, names[0]!)
  if (first !== undefined) return first
  const found = new Set(names.map((name) => columnOf(columns, name)).filter((column) => column !== undefined))
  if (found.size > 0) return found.size === 1 ? [...found][0]! : ''
  if (columns.length === 1) return columns[0]!
  if (channel !== 'sms') return ''
  const index = columns.findIndex((_, at) => rows.length > 0 && rows.every((row) => /^\+?\d[\d -]{9,18}$/.test(row.cells[at] ?? '')))
  return columns[index] ?? ''
}
