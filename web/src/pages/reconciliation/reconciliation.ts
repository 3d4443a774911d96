import type { Schema } from '@/api/types'
import type { Tone } from '@/components/StatusTag.vue'

export type Reconciliation = Schema<'Reconciliation'>
export type Kind = Schema<'DifferenceKind'>

/** The kinds that are differences; near_midnight is none. */
export const kinds = ['missing_here', 'missing_there', 'status_differs', 'segments_differ', 'repeated', 'unreadable'] as const

/** The word and the tone of a result. */
export function resultOf({ status, matches }: Reconciliation): [string, Tone] {
  if (status === 'running') return ['running', 'busy']
  if (status === 'failed') return ['failed', 'bad']
  return matches ? ['matches', 'good'] : ['differs', 'bad']
}
