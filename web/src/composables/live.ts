// The live figures of the service: one stream of events for all pages, or a question every 5 seconds where the stream does not work.
import { onScopeDispose, readonly, ref, shallowRef, watch } from 'vue'
import { api, call } from '@/api/client'
import type { Schema } from '@/api/types'
import { can, session } from '@/session'

export type Overview = Schema<'Overview'>
/** stream: figures arrive by themselves; polling: they are asked for; off: none are to be had. */
export type LiveState = 'off' | 'stream' | 'polling'

const pollEvery = 5_000
const retryStreamAfter = 30_000
const closeHiddenAfter = 60_000

const overview = shallowRef<Overview | null>(null)
const state = ref<LiveState>('off')
const listeners = new Set<() => void>()

let stream: EventSource | undefined
let poll: ReturnType<typeof setInterval> | undefined
let retry: ReturnType<typeof setTimeout> | undefined
let hide: ReturnType<typeof setTimeout> | undefined

function take(figures: Overview) {
  overview.value = figures
  for (const listener of listeners) listener()
}

function stop() {
  stream?.close()
  stream = undefined
  clearInterval(poll)
  poll = undefined
  clearTimeout(retry)
  state.value = 'off'
}

async function ask() {
  try {
    take(await call(api.GET('/api/v1/admin/overview')))
  } catch {
    // The next question may get an answer.
  }
}

function startPolling() {
  if (poll !== undefined) return
  stream?.close()
  stream = undefined
  state.value = 'polling'
  void ask() // 401 tells that the session has ended
  poll = setInterval(() => void ask(), pollEvery)
  retry = setTimeout(start, retryStreamAfter)
}

function start() {
  stop()
  if (!session.value || document.hidden) return
  if (!can('streamOverview')) {
    if (can('getOverview')) startPolling()
    return
  }
  stream = new EventSource('/api/v1/admin/stream')
  stream.addEventListener('open', () => (state.value = 'stream'))
  stream.addEventListener('overview', (event) => take(JSON.parse((event as MessageEvent<string>).data) as Overview))
  // A browser tries again by itself after a lost connection, but not after an error status.
  stream.addEventListener('error', () => startPolling())
  stream.addEventListener('bye', () => startPolling())
}

watch(
  () => session.value?.username,
  () => {
    overview.value = null
    start()
  },
)

document.addEventListener('visibilitychange', () => {
  clearTimeout(hide)
  if (document.hidden) hide = setTimeout(stop, closeHiddenAfter)
  else if (!stream && poll === undefined) start()
})

// A page that is left must not hold a connection of the server.
addEventListener('pagehide', stop)

/** The live figures. */
export function useLive() {
  if (!stream && poll === undefined) start()
  return { overview: readonly(overview), state: readonly(state) }
}

/** Calls `refresh` when the figures changed, at most once in `every` milliseconds, while the component is shown and the tab is visible. */
export function onLive(refresh: () => unknown, every = 5_000): void {
  let last = Date.now()
  let later: ReturnType<typeof setTimeout> | undefined
  const run = () => {
    later = undefined
    last = Date.now()
    if (!document.hidden) void refresh()
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
