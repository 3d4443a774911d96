// What the charts, tables and files of statistics are made from.
import type { Schema } from '@/api/types'
import { formatDuration, formatNumber, formatPercent } from '@/composables/format'

export type Answer = Schema<'StatisticsRange'>
export type Point = Schema<'StatisticsPoint'>
export type Figures = Schema<'StatisticsFigures'>
export type Step = Answer['step']
export type By = 'company' | 'channel' | 'sender' | 'message_type' | 'outcome'

export const steps: Step[] = ['minute', 'hour', 'day']
export const dimensions: By[] = ['company', 'channel', 'sender', 'message_type', 'outcome']

/** Milliseconds of a step, and for how long its points are kept. */
const lengths: Record<Step, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 }
const kept: Record<Step, number> = { minute: 2 * 86_400_000, hour: 93 * 86_400_000, day: 3650 * 86_400_000 }

/** Whether the server has points of this step for the whole range. */
export const fits = (step: Step, from: number, now = Date.now()): boolean => now - from <= kept[step]

/** The step that shows a range with some dozen to some hundred points. */
export function bestStep(from: number, to: number, now = Date.now()): Step {
  if (to - from <= 3 * 3_600_000 && fits('minute', from, now)) return 'minute'
  return to - from <= 8 * 86_400_000 && fits('hour', from, now) ? 'hour' : 'day'
}

const ended = (one: Figures): number => one.succeeded + one.failed + one.cancelled

/** Of the tasks that became SUCCESS or FAILED, the share that became SUCCESS. */
export const successRate = (one: Figures): number | null => (one.succeeded + one.failed === 0 ? null : one.succeeded / (one.succeeded + one.failed))

const counts = ['submitted', 'requeued', 'claimed', 'succeeded', 'failed', 'cancelled', 'unreported', 'delivered', 'undelivered', 'segments'] as const
const times = ['wait_p50', 'wait_p95', 'wait_p99', 'duration_p50', 'duration_p95', 'duration_p99'] as const

export const figures = [...counts.slice(0, 6), 'ended', 'success_rate', ...counts.slice(6), ...times] as const
export type Figure = (typeof figures)[number]

/** The value of a figure; null if nothing was measured. */
export function figure(of: Figures, name: Figure): number | null {
  if (name === 'success_rate') return successRate(of)
  if (name === 'ended') return ended(of)
  return of[name] ?? (name === 'unreported' ? 0 : null)
}

export const isTime = (name: Figure): boolean => (times as readonly string[]).includes(name)
const isCount = (name: Figure): boolean => name !== 'success_rate' && !isTime(name)

export function formatFigure(name: Figure, value: number | null): string {
  if (name === 'success_rate') return formatPercent(value)
  return isTime(name) ? formatDuration(value) : formatNumber(value)
}

/**
 * The times of all steps of an answer, in milliseconds. The step that is not over yet would look like a fall, and is left out, unless
 * nothing happened before it.
 */
export function timesOf(answer: Answer, now = Date.now()): number[] {
  const known = [...new Set(answer.series.flatMap((one) => one.points.map((point) => Date.parse(point.at))))].sort((a, b) => a - b)
  const length = lengths[answer.step]
  const over = known.length === 0 || known[0]! <= now - length
  const end = Math.min(Date.parse(answer.to), over ? now - length + 1 : now + 1)
  const all: number[] = []
  let next = 0
  for (let at = Date.parse(answer.from); at < end; at += length) {
    // A day is an hour longer or shorter when the clocks change: the points know.
    while (next < known.length && known[next]! < at - length / 2) next++
    if (answer.step === 'day' && next < known.length && Math.abs(known[next]! - at) < length / 2) at = known[next]!
    all.push(at)
  }
  return all
}

/** A figure of a series at each time. Steps in which nothing happened are left out by the server: their counts are 0. */
export function valuesOf(points: Point[], at: number[], name: Figure): (number | null)[] {
  const found = new Map(points.map((point) => [Date.parse(point.at), point]))
  return at.map((time) => {
    const point = found.get(time)
    return point ? figure(point, name) : isCount(name) ? 0 : null
  })
}

/** The date of a day of the server's time zone, as the same date of the viewer's clock. */
function dayHere(at: number, timeZone: string): number {
  const parts = Object.fromEntries(new Intl.DateTimeFormat('en-US', { timeZone, year: 'numeric', month: 'numeric', day: 'numeric' }).formatToParts(at).map(({ type, value }) => [type, Number(value)]))
  return new Date(parts.year!, parts.month! - 1, parts.day).getTime()
}

/** The times as a chart shows them: seconds, days at midnight of the viewer's clock. */
export const shownTimes = (answer: Answer, at: number[]): number[] => at.map((time) => (answer.step === 'day' ? dayHere(time, answer.time_zone) : time) / 1000)
export const shownTime = (answer: Answer, at: string): number => (answer.step === 'day' ? dayHere(Date.parse(at), answer.time_zone) : Date.parse(at))
