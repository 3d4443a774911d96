import type { Schema } from '@/api/types'

export type EventKind = Schema<'EventRequest'>['event']

export const eventKinds: EventKind[] = ['task_created', 'node_done', 'orbit_plan', 'task_finished', 'task_abnormal', 'node_started', 'node_finished']

/** The fields that an event has beside its task and its channels. */
export const eventFields: Record<EventKind, ('node' | 'people' | 'initiator' | 'orbits' | 'started' | 'finished' | 'duration')[]> = {
  task_created: ['people', 'initiator'],
  node_done: ['node', 'people'],
  orbit_plan: ['people', 'orbits'],
  task_finished: ['people', 'finished'],
  task_abnormal: ['people', 'finished'],
  node_started: ['node', 'people', 'started', 'duration'],
  node_finished: ['node', 'finished'],
}

/** The business type whose template an event uses. */
export const eventType: Record<EventKind, number | null> = { task_created: 0, node_done: 1, orbit_plan: 2, task_finished: 3, task_abnormal: 4, node_started: 5, node_finished: null }
