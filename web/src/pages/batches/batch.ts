// What the pages of batches know about a batch.
import type { Schema } from '@/api/types'
import type { Tone } from '@/components/StatusTag.vue'

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

// As the server looks for the column with the phone numbers (internal/audience/batch/source/source.go).
const usualNames = ['phone_number', 'phone', 'mobile', '手机号', '手机号码', '手机', '电话号码', '电话', '号码', '接收号码']

// As the server looks for the column with the signatures.
const usualSigns = ['sign', 'sms_sign', '短信签名', '签名']

/** The column with the signature of each row, if one has a usual name and the text does not use it. */
export function signColumn(columns: string[], used: string[], phone: string): string {
  for (const name of usualSigns) {
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

// As the server looks for the column with the addresses (internal/audience/contact/field.go).
const usualAddresses: Record<string, string[]> = {
  email: ['email', 'e-mail', 'mail', '邮箱', '电子邮箱', '邮件', '电子邮件', '邮箱地址'],
  dingtalk_name: ['dingtalk_name', 'dingtalk', '钉钉', '钉钉账号', '钉钉用户名', '钉钉用户ID'],
  wechat_openid: ['wechat_openid', 'openid', '微信openid', '微信'],
  user_id: ['user_id', 'userid', '用户ID', '用户编号', '用户标识', '工号', '编号', '账号'],
}

/** The column with the addresses on a channel. */
export function addressColumn(preview: Schema<'ListPreview'>, channel: string): string {
  if (channel === 'sms') return phoneColumn(preview)
  for (const name of usualAddresses[addressField(channel)] ?? []) {
    const column = columnOf(preview.columns, name)
    if (column !== undefined) return column
  }
  return preview.columns.length === 1 ? preview.columns[0]! : ''
}

/** The column with the phone numbers: one with a usual name, the only one, or the first one whose values look like phone numbers. */
export function phoneColumn({ columns, rows }: Schema<'ListPreview'>): string {
  for (const name of usualNames) {
    const column = columnOf(columns, name)
    if (column !== undefined) return column
  }
  if (columns.length === 1) return columns[0]!
  const index = columns.findIndex((_, at) => rows.length > 0 && rows.every((row) => /^\+?\d[\d -]{9,18}$/.test(row.cells[at] ?? '')))
  return columns[index] ?? ''
}
