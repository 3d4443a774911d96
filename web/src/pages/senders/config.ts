// The configuration of a driven sender: its schema in the contract, and the values that a form of it holds.
import { toRaw } from 'vue'
import { ApiError } from '@/api/client'
import { i18n, t } from '@/i18n'

/** A part of the JSON schema of a configuration. Without a type, any JSON. */
export interface ConfigSchema {
  type?: string
  description?: string
  required?: string[]
  properties?: Record<string, ConfigSchema>
  additionalProperties?: ConfigSchema
  items?: ConfigSchema
  enum?: string[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  example?: string
  format?: string
  /** A secret: the server never shows it. */
  writeOnly?: boolean
}

export type Config = Record<string, unknown>

/** What the server shows instead of a secret. */
export const hiddenSecret = '***'

/** What a form holds for a stored secret that is to be replaced, as long as nothing is typed. Null removes the secret. */
export class MissingSecret {}

/** Whether a value is an address whose path the server hides. */
export const isHiddenAddress = (value: unknown): boolean => typeof value === 'string' && value.endsWith('/***')

/** What the form edits: any JSON, and headers and values, are edited as texts. */
export type FieldKind = 'text' | 'number' | 'boolean' | 'choice' | 'list' | 'pairs' | 'json' | 'group'

export function fieldKind(schema: ConfigSchema): FieldKind {
  if (schema.enum) return 'choice'
  if (schema.type === 'string') return 'text'
  if (schema.type === 'number' || schema.type === 'integer') return 'number'
  if (schema.type === 'boolean') return 'boolean'
  if (schema.type === 'array') return 'list'
  if (schema.type === 'object') return schema.properties ? 'group' : 'pairs'
  return 'json'
}

export const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || value === false || (typeof value === 'object' && Object.values(value as object).every(isEmpty))

/** A copy of a configuration in which every group of the schema exists, for a form. */
export function withGroups(schema: ConfigSchema | undefined, values: Config): Config {
  const copy: Config = structuredClone(toRaw(values))
  for (const [name, part] of Object.entries(schema?.properties ?? {}))
    if (fieldKind(part) === 'group') copy[name] = withGroups(part, (values[name] ?? {}) as Config)
  return copy
}

/** The configuration without the fields that say nothing, and without those that the kind does not know. Throws for a secret that is missing. */
export function cleanConfig(schema: ConfigSchema, values: Config): Config {
  const clean: Config = {}
  for (const [name, part] of Object.entries(schema.properties ?? {})) {
    const value = values[name]
    if (part.writeOnly && value === null) clean[name] = null
    else if (value instanceof MissingSecret) {
      const sentence = t('senders.form.missingSecret')
      throw new ApiError(sentence, 422, 'request.invalid', { [`config.${name}`]: sentence })
    } else if (fieldKind(part) === 'group') {
      if (value === undefined || value === null) continue
      const inner = cleanConfig(part, value as Config)
      if (Object.keys(inner).length > 0) clean[name] = inner
    } else if (value === 0 || !isEmpty(value)) clean[name] = value
  }
  return clean
}

/** The fields of a schema that a form opens with, and those behind "more". */
export function splitFields(schema: ConfigSchema): { first: [string, ConfigSchema][]; more: [string, ConfigSchema][] } {
  const all = Object.entries(schema.properties ?? {})
  const later = new Set(['answer', 'callback', 'callbackSecret', 'timeoutSeconds', 'atOnce'])
  return { first: all.filter(([name]) => !later.has(name)), more: all.filter(([name]) => later.has(name)) }
}

/** A text in a form that is no JSON. */
export class UnreadableJson {
  constructor(readonly text: string) {}
}

/** The names of the fields whose text is no JSON. */
export const unreadableFields = (config: Config): string[] => Object.keys(config).filter((name) => config[name] instanceof UnreadableJson)

/** Whether a text exists. The schema may name a field for which nobody wrote texts yet. */
export const hasText = (key: string): boolean => (i18n.global.te as (key: string) => boolean)(key)

/** The key of the texts of a field: those of the kind come before those that all kinds share. path is the path in the configuration, such as callbackOf.verify. */
export function configKey(kind: string, path: string): string {
  const own = `senders.kindConfig.${kind}.${path}`
  return hasText(own) ? own : `senders.config.${path}`
}
