// The live figures of the service: one stream of events for all pages, or a question every 5 seconds where the stream does not work.
import { onScopeDispose, readonly, ref, shallowRef, watch } from 'vue'
import { api, asApiError, call, type ApiError } from '@/api/client'
import type { Schema } from '@/api/types'
import { base } from '@/base'
import { can, check, isLost, session } from '@/session'

export type Overview = Schema<'Overview'>
/** stream: figures arrive by themselves; polling: they are asked for; stale: the latest ones cannot be read; off: none are to be had. */
export type LiveState = 'off' | 'stream' | 'polling' | 'stale'

const pollEvery = 5_000
const retryStreamAfter = 30_000
const closeHiddenAfter = 60_000
const silentAfter = 20_000 // the server sends something every 15 seconds

const overview = shallowRef<Overview | null>(null)
const error = shallowRef<ApiError | null>(null)
const state = ref<LiveState>('off')
const listeners = new Set<() => void>()

let stream: EventSource | undefined
let poll: ReturnType<typeof setInterval> | undefined
let silence: ReturnType<typeof setTimeout> | undefined
let retry: ReturnType<typeof setTimeout> | undefined
let hide: ReturnType<typeof setTimeout> | undefined

function take(figures: Overview) {
  overview.value = figures
  error.value = null
  for (const listener of listeners) listener()
}

async function ask() {
  const mine = poll
  try {
    const figures = await call(api.GET('/api/v1/admin/overview'))
    if (mine !== poll) return // the stream is faster
    state.value = 'polling'
    take(figures)
  } catch (caught) {
    if (mine !== poll) return
    state.value = 'stale'
    error.value = asApiError(caught)
  }
}

function startPolling() {
  if (poll !== undefined) return
  poll = setInterval(() => void ask(), pollEvery)
  void ask() // 401 tells that the session has ended
}

function stopPolling() {
  clearInterval(poll)
  poll = undefined
}

function closeStream() {
  stream?.close()
  stream = undefined
  clearTimeout(silence)
  clearTimeout(retry)
}

function stop() {
  closeStream()
  stopPolling()
  state.value = 'off'
}

/** Asks for the figures until the stream works, which is tried again later. */
function giveUpStream() {
  closeStream()
  startPolling()
  retry = setTimeout(openStream, retryStreamAfter)
}

// A proxy may hold the events back, and a connection may break without an error: only what arrives shows that the stream works.
function listen() {
  clearTimeout(silence)
  silence = setTimeout(giveUpStream, silentAfter)
}

function heard(isCurrent: boolean) {
  stopPolling()
  listen()
  state.value = isCurrent ? 'stream' : 'stale'
}

function openStream() {
  closeStream()
  stream = new EventSource(`${base}/api/v1/admin/stream`)
  listen()
  stream.addEventListener('overview', (event) => {
    heard(true)
    take(JSON.parse((event as MessageEvent<string>).data) as Overview)
  })
  stream.addEventListener('ping', (event) => {
    const { current } = JSON.parse((event as MessageEvent<string>).data) as { current: boolean }
    heard(current)
    if (!current && !overview.value) giveUpStream() // the answer to a question says why there are no figures
  })
  // A browser tries again by itself after a lost connection, but not after an error status.
  stream.addEventListener('error', giveUpStream)
  stream.addEventListener('bye', () => {
    giveUpStream()
    void check() // the session may have ended, or belong to another user
  })
}

function start() {
  stop()
  if (!session.value || isLost.value || document.hidden) return
  if (can('streamOverview')) openStream()
  else if (can('getOverview')) startPolling()
}

watch([() => session.value?.username, isLost], start)

document.addEventListener('visibilitychange', () => {
  clearTimeout(hide)
  if (document.hidden) hide = setTimeout(stop, closeHiddenAfter)
  else if (!stream && poll === undefined) start()
})

// A page that is left must not hold a connection of the server.
addEventListener('pagehide', stop)

/** The live figures. `error` says why there are none. */
export function useLive() {
  if (!stream && poll === undefined) start()
  return { overview: readonly(overview), state: readonly(state), error: readonly(error), retry: start }
}

/** Calls `refresh` when the figures changed, at most once in `every` milliseconds, while the component is shown and the tab is visible. */
export function onLive(refresh: () => unknown, every = 5_000): void {
  let last = Date.now()
  let later: ReturnType<typeof setTimeout> | undefined
  const run = () => {
    later = undefined
    last = Date.now()
    if (!document.hidden && !isLost.value) void refresh()
  }
  const listener = () => {
    later ??= setTimeout(run, Math.max(0, last + every - Date.now()))
  }
  listeners.add(listener)
  onScopeDispose(() => {
    listeners.delete(listener)
    clearTimeout(later)
  })
}
