// Times in the viewer's zone, numbers, durations and phone numbers, in the viewer's language.
import { computed } from 'vue'
import { language, t } from '@/i18n'

const locale = computed(() => (language.value === 'zh' ? 'zh-CN' : 'en-GB'))

type Moment = string | number | Date | null | undefined

const full = computed(() => new Intl.DateTimeFormat(locale.value, { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false }))
// A month has a name where the order of day and month differs from country to country.
const month = computed(() => (language.value === 'zh' ? '2-digit' : 'short') as '2-digit' | 'short')
const short = computed(() => new Intl.DateTimeFormat(locale.value, { month: month.value, day: '2-digit', hour: '2-digit', minute: '2-digit', hour12: false }))
const shortWithYear = computed(() => new Intl.DateTimeFormat(locale.value, { year: 'numeric', month: month.value, day: '2-digit', hour: '2-digit', minute: '2-digit', hour12: false }))
const dayOnly = computed(() => new Intl.DateTimeFormat(locale.value, { year: 'numeric', month: '2-digit', day: '2-digit' }))
const clockOnly = computed(() => new Intl.DateTimeFormat(locale.value, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false }))
const moment = computed(() => new Intl.DateTimeFormat(locale.value, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hour12: false }))
const relative = computed(() => new Intl.RelativeTimeFormat(locale.value, { numeric: 'auto' }))

const write = (format: Intl.DateTimeFormat, value: Moment) => (value === null || value === undefined || value === '' ? '–' : format.format(new Date(value)))

/** Date and time to the second. */
export const formatTime = (value: Moment): string => write(full.value, value)
/** Day, hour and minute, for tables; with the year if it is not this one. */
export const formatShortTime = (value: Moment): string =>
  write(value && new Date(value).getFullYear() !== new Date().getFullYear() ? shortWithYear.value : short.value, value)
export const formatDay = (value: Moment): string => write(dayOnly.value, value)
export const formatClock = (value: Moment): string => write(clockOnly.value, value)
/** The time of day to the millisecond. */
export const formatMoment = (value: Moment): string => write(moment.value, value)

/** "3 minutes ago". */
export function formatAgo(value: string | Date, now = Date.now()): string {
  const seconds = (new Date(value).getTime() - now) / 1000
  const size = Math.abs(seconds)
  if (size < 60) return relative.value.format(Math.round(seconds), 'second')
  if (size < 3600) return relative.value.format(Math.round(seconds / 60), 'minute')
  if (size < 86_400) return relative.value.format(Math.round(seconds / 3600), 'hour')
  return relative.value.format(Math.round(seconds / 86_400), 'day')
}

/** A number with separators; `digits` after the point at most. */
export function formatNumber(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? '–' : new Intl.NumberFormat(locale.value, { maximumFractionDigits: digits }).format(value)
}

/** The size of a file. */
export function formatBytes(bytes: number): string {
  const [unit, size] = bytes < 1024 ? ['B', 1] : bytes < 1024 ** 2 ? ['KiB', 1024] : ['MiB', 1024 ** 2]
  return `${formatNumber(bytes / (size as number), bytes < 10 * (size as number) ? 1 : 0)} ${unit}`
}

/** A share from 0 to 1 as "98.7%". Only all of it is 100%. */
export function formatPercent(value: number | null | undefined, digits = 1): string {
  return value === null || value === undefined || !Number.isFinite(value) ? '–' : new Intl.NumberFormat(locale.value, { style: 'percent', maximumFractionDigits: digits }).format(value < 1 ? Math.min(value, 1 - 10 ** -(digits + 2)) : value)
}

/** Seconds as "1 h 5 min", "12 s", "0.35 s". */
export function formatDuration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '–'
  if (seconds < 10) return t('common.duration.seconds', { n: formatNumber(seconds, seconds < 1 ? 2 : 1) })
  const whole = Math.round(seconds)
  if (whole < 60) return t('common.duration.seconds', { n: whole })
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), 'days'],
    [Math.floor((whole % 86_400) / 3600), 'hours'],
    [Math.floor((whole % 3600) / 60), 'minutes'],
    [whole % 60, 'seconds'],
  ]
  const first = parts.findIndex(([n]) => n > 0)
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, unit]) => t(`common.duration.${unit}`, { n: formatNumber(n) }))
    .join(' ')
}

/** Whether a value of a list looks like a phone number or another address of a person. */
export const isAddress = (text: string): boolean => /^(\+\d([ -]?\d){6,19}|\d([ -]?\d){9,19}|\S+@\S+)$/.test(text.trim())

/** A phone number or another address, with the middle hidden. */
export function mask(address: string): string {
  if (address.includes('@')) {
    const at = address.indexOf('@')
    return `${address.slice(0, Math.min(2, at))}***${address.slice(at)}`
  }
  if (address.length <= 4) return '*'.repeat(address.length)
  const shown = address.length >= 11 ? 4 : 2
  const start = Math.min(address.length - shown - 3, address.startsWith('+') ? 6 : 3)
  return `${address.slice(0, Math.max(1, start))}${'*'.repeat(4)}${address.slice(-shown)}`
}
