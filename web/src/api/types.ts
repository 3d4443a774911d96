// Short names for the types of the contract.
import type { components, operations } from './schema'

export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name]
/** An operationId of the contract. */
export type Operation = keyof operations
/** One page of a list. */
export interface Page<T> {
  items: T[]
  next_cursor: string | null
}

/** The message types, the most urgent first. */
export const messageTypes = ['verification', 'notification', 'marketing'] as const satisfies readonly Schema<'MessageType'>[]
