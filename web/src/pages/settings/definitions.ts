// How each setting is shown. A setting of the server that is missing here is shown by its name, without an explanation.
import type { Schema } from '@/api/types'

export type Value = number | boolean | string

export interface Definition {
  /** The default of the server (internal/setting). */
  standard: Value
  kind: 'seconds' | 'minutes' | 'hours' | 'days' | 'number' | 'yes' | 'text' | 'choice'
  least?: number
  most?: number
  choices?: string[]
  /** 0 means: never. */
  zeroIsNever?: boolean
}

export type Category = Schema<'Category'>

export const categories: Category[] = ['queue', 'sms', 'monitoring', 'history', 'access']

const month = 2_592_000

export const definitions: Record<Category, Record<string, Definition>> = {
  queue: {
    priority_max_wait_seconds: { standard: 3600, kind: 'seconds', least: 0, most: month, zeroIsNever: true },
    sender_silent_after_seconds: { standard: 60, kind: 'seconds', least: 1, most: 86_400 },
    register_unknown_senders: { standard: true, kind: 'yes' },
  },
  sms: {
    priority_verification: { standard: 1, kind: 'number', least: 0, most: 9 },
    priority_notification: { standard: 5, kind: 'number', least: 0, most: 9 },
    priority_marketing: { standard: 8, kind: 'number', least: 0, most: 9 },
    scheduled_every_seconds: { standard: 300, kind: 'seconds', least: 1, most: 86_400 },
    send_tests: { standard: true, kind: 'yes' },
    content_most_verification: { standard: 200, kind: 'number', least: 1, most: 1024 },
    content_most_notification: { standard: 200, kind: 'number', least: 1, most: 1024 },
    content_most_marketing: { standard: 200, kind: 'number', least: 1, most: 1024 },
    segments_most_verification: { standard: 16, kind: 'number', least: 1, most: 16 },
    segments_most_notification: { standard: 16, kind: 'number', least: 1, most: 16 },
    segments_most_marketing: { standard: 16, kind: 'number', least: 1, most: 16 },
  },
  monitoring: {
    wait_warning_seconds: { standard: 300, kind: 'seconds', least: 0, most: month, zeroIsNever: true },
    wait_critical_seconds: { standard: 600, kind: 'seconds', least: 0, most: month, zeroIsNever: true },
    wait_emergency_seconds: { standard: 1800, kind: 'seconds', least: 0, most: month, zeroIsNever: true },
    time_zone: { standard: 'Asia/Shanghai', kind: 'text', most: 50 },
    currency: { standard: 'CNY', kind: 'text', most: 3 },
  },
  history: {
    partition_width: { standard: 'day', kind: 'choice', choices: ['day', 'week', 'month'] },
    after_days: { standard: 1, kind: 'days', least: 1, most: 36_500 },
    tablespace: { standard: '', kind: 'text', most: 63 },
    keep_days: { standard: 0, kind: 'days', least: 0, most: 36_500, zeroIsNever: true },
    export: { standard: true, kind: 'yes' },
    log_days: { standard: 180, kind: 'days', least: 0, most: 36_500, zeroIsNever: true },
    feed_days: { standard: 7, kind: 'days', least: 6, most: 90 },
  },
  access: {
    session_idle_minutes: { standard: 480, kind: 'minutes', least: 5, most: 525_600 },
    session_max_hours: { standard: 168, kind: 'hours', least: 1, most: 8760 },
  },
}

const unit = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 }

/** The seconds of a time, or null if the setting is none. */
export const inSeconds = (definition: Definition, value: Value): number | null =>
  typeof value === 'number' && definition.kind in unit ? value * unit[definition.kind as keyof typeof unit] : null

/** A guess for a setting that is missing above. */
export const guess = (value: Value): Definition => ({ standard: value, kind: typeof value === 'boolean' ? 'yes' : typeof value === 'number' ? 'number' : 'text' })
