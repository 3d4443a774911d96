import type { Schema } from '@/api/types'
import { t } from '@/i18n'

/** What holds a message, in words. */
export function heldByText(all: Schema<'Switch'>[]): string {
  return all.map((one) => t(`compose.switches.${one.switch}`, { name: one.name || '?' })).join('; ')
}
