// How each setting is shown. The server declares the settings (internal/platform/setting), and its tests keep declarations.json and the texts complete.
import type { Schema } from '@/api/types'
import declarations from './declarations.json'

export type Value = number | boolean | string

export interface Definition {
  default: Value
  kind: 'seconds' | 'minutes' | 'hours' | 'days' | 'number' | 'yes' | 'text' | 'choice'
  min?: number
  max?: number
  choices?: string[]
  zero_is_never?: boolean
  /** The number need not be whole. */
  is_fraction?: boolean
}

export type Category = Schema<'Category'>

const list = declarations as (Definition & { category: Category; name: string })[]

export const categories: Category[] = [...new Set(list.map((one) => one.category))]

export const definitions = {} as Record<Category, Record<string, Definition>>
for (const one of list) (definitions[one.category] ??= {})[one.name] = one

const unit = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 }

/** The seconds of a time, or null if the setting is none. */
export const inSeconds = (definition: Definition, value: Value): number | null =>
  typeof value === 'number' && definition.kind in unit ? value * unit[definition.kind as keyof typeof unit] : null

/** A guess for a setting of a newer server. */
export const guess = (value: Value): Definition => ({ default: value, kind: typeof value === 'boolean' ? 'yes' : typeof value === 'number' ? 'number' : 'text' })
