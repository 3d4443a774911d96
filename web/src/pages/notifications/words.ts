// The numbers of notifications as words, and the placeholders of their templates.
import type { Tone } from '@/components/StatusTag.vue'
import { hasText, t } from '@/i18n'

/** The business types that have a meaning for the server. */
export const businessTypes = [0, 1, 2, 3, 4, 5] as const

export function businessType(type: number): string {
  const key = `notifications.types.${type}`
  return hasText(key) ? t(key) : t('notifications.ownType', { type })
}

export const statuses = [0, 1, 2, 3, 4, 5] as const
export const tones: Tone[] = ['idle', 'good', 'bad', 'warn', 'bad', 'warn']
/** The state of a notification, and of a person. */
export const statusName = (status: number): string => t(`notifications.statuses.${status}`)

const placeholder = /\$\{([^{}]*)\}/g

export const placeholders = (text: string): string[] => [...new Set([...text.matchAll(placeholder)].map((match) => match[1]!))]

/** The text with its values, as the server fills it (internal/audience/notification/fill.go). */
export const fill = (text: string, values: Record<string, unknown>): string =>
  text.replace(placeholder, (whole, name: string) => {
    const value = values[name]
    if (value === undefined || value === null || value === '') return whole
    return typeof value === 'string' ? value : JSON.stringify(value)
  })

/** User ids from a text, separated by spaces, commas or lines. */
export const userIds = (text: string): string[] => [...new Set(text.split(/[\s,，;；、]+/).filter(Boolean))]
