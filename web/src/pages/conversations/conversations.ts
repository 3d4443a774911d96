// The list of conversations, and the messages of one.
import { computed, onScopeDispose, reactive, ref, shallowRef, watch } from 'vue'
import { api, asApiError, call, type ApiError } from '@/api/client'
import type { Schema } from '@/api/types'
import { useEvery } from '@/composables/every'
import { onLive, useLive } from '@/composables/live'
import { useNewest } from '@/composables/newest'
import { isLost } from '@/session'

export type Conversation = Schema<'Conversation'>
export type Item = Schema<'ConversationItem'>
export type Thread = Schema<'ConversationThread'>

/** Names a conversation. */
export interface Key {
  company_no: string
  phone_number: string
}

export const keyOf = ({ company_no, phone_number }: Key): string => `${company_no}\n${phone_number}`
export const idOf = (item: Item): string => item.task_id ?? String(item.received_id)

const pageSize = 30

/** The conversations that are loaded, the one with the newest received message first. `kept` stays in the list although it is read. */
export function useConversations(unreadOnly: () => boolean, kept: () => string | null) {
  const items = shallowRef<Conversation[]>([])
  const nextCursor = ref<string | null>(null)
  const loaded = ref(false)
  const loadingMore = ref(false)
  const error = shallowRef<ApiError | null>(null)

  const ask = (cursor?: string) =>
    call(api.GET('/api/v1/conversations', { params: { query: { limit: pageSize, ...(unreadOnly() ? { unread: true } : {}), ...(cursor ? { cursor } : {}) } } }))

  const newest = useNewest(async (isNewest, quietly) => {
    try {
      const page = await ask()
      if (!isNewest()) return
      const known = new Set(page.items.map(keyOf))
      const end = page.items.at(-1)?.last_received_id ?? 0
      const older = quietly && page.next_cursor !== null ? items.value.filter((one) => one.last_received_id < end && !known.has(keyOf(one))) : []
      const open = quietly ? items.value.filter((one) => keyOf(one) === kept() && !known.has(keyOf(one)) && !older.includes(one)) : []
      items.value = [...page.items, ...open, ...older].sort((a, b) => b.last_received_id - a.last_received_id)
      if (older.length === 0) nextCursor.value = page.next_cursor
      error.value = null
      loaded.value = true
    } catch (caught) {
      if (!isNewest() || (quietly && loaded.value)) return
      const failure = asApiError(caught)
      if (failure.status === 401) return // asked again after signing in
      error.value = failure
    }
  })

  async function more() {
    if (nextCursor.value === null || loadingMore.value) return
    loadingMore.value = true
    try {
      const page = await ask(nextCursor.value)
      const known = new Set(items.value.map(keyOf))
      items.value = [...items.value, ...page.items.filter((one) => !known.has(keyOf(one)))]
      nextCursor.value = page.next_cursor
    } catch (caught) {
      error.value = asApiError(caught)
    } finally {
      loadingMore.value = false
    }
  }

  /** Shows a conversation that is not loaded yet. */
  function add(one: Conversation) {
    if (!items.value.some((other) => keyOf(other) === keyOf(one))) items.value = [...items.value, one].sort((a, b) => b.last_received_id - a.last_received_id)
  }

  /** Shows at once that the messages of a conversation are read. */
  function markRead(key: string) {
    items.value = items.value.map((one) => (keyOf(one) === key ? { ...one, unread: 0 } : one))
  }

  watch(unreadOnly, () => void newest.run(), { immediate: true })
  watch(isLost, (lost) => lost || void newest.refresh())
  return reactive({ items, loaded, loadingMore, error, hasMore: computed(() => nextCursor.value !== null), more, add, markRead, reload: newest.run, refresh: newest.refresh })
}

/** Refreshes when messages arrived or were read, while `isOpen`, and twice a minute. */
export function onMessages(refresh: () => Promise<unknown>, isOpen: () => boolean = () => false) {
  const { overview, state } = useLive()
  let seen = ''
  let at = 0
  onLive(() => {
    const figures = overview.value?.conversations
    const now = `${figures?.unread} ${figures?.last_received_id}`
    if (now === seen && !isOpen() && Date.now() - at < 30_000) return
    seen = now
    at = Date.now()
    void refresh()
  }, 2_000)
  useEvery(5, refresh, () => state.value === 'off')
}

const searchFor = 1500 // milliseconds: a page can be empty although older messages follow

/** The messages of a conversation, the oldest first as far as they are loaded. */
export function useThread(key: () => Key | null) {
  const head = shallowRef<Thread | null>(null)
  const newestFirst = shallowRef<Item[]>([])
  const nextCursor = ref<string | null>(null)
  const loadingMore = ref(false)
  const error = shallowRef<ApiError | null>(null)
  let shown = ''

  const ask = ({ company_no, phone_number }: Key, cursor?: string) =>
    call(api.GET('/api/v1/conversations/{phone_number}', { params: { path: { phone_number }, query: { company_no, limit: pageSize, ...(cursor ? { cursor } : {}) } } }))

  /** Asks for pages until one has messages. */
  async function search(of: Key, cursor?: string) {
    const started = performance.now()
    let page = await ask(of, cursor)
    while (page.items.length === 0 && page.next_cursor !== null && performance.now() - started < searchFor) page = await ask(of, page.next_cursor)
    return page
  }

  const newest = useNewest(async (isNewest, quietly) => {
    const of = key()
    if (!of) return
    if (keyOf(of) !== shown) {
      head.value = null
      newestFirst.value = []
      nextCursor.value = null
      error.value = null
    }
    try {
      const page = await search(of)
      if (!isNewest() || key() === null || keyOf(key()!) !== keyOf(of)) return
      const fresh = new Set(page.items.map(idOf))
      const joins = quietly && shown === keyOf(of) && newestFirst.value.some((one) => fresh.has(idOf(one)))
      if (!joins) nextCursor.value = page.next_cursor
      newestFirst.value = joins ? [...page.items, ...newestFirst.value.filter((one) => !fresh.has(idOf(one)))] : page.items
      shown = keyOf(of)
      head.value = page
      error.value = null
    } catch (caught) {
      if (!isNewest() || (quietly && head.value)) return
      const failure = asApiError(caught)
      if (failure.status === 401) return
      error.value = failure
    }
  })

  async function more() {
    const of = key()
    if (!of || nextCursor.value === null || loadingMore.value) return
    loadingMore.value = true
    try {
      const page = await search(of, nextCursor.value)
      if (keyOf(of) !== shown) return
      const known = new Set(newestFirst.value.map(idOf))
      newestFirst.value = [...newestFirst.value, ...page.items.filter((one) => !known.has(idOf(one)))]
      nextCursor.value = page.next_cursor
    } catch (caught) {
      error.value = asApiError(caught)
    } finally {
      loadingMore.value = false
    }
  }

  watch(
    () => key() && keyOf(key()!),
    () => void newest.run(),
    { immediate: true },
  )
  watch(isLost, (lost) => lost || void newest.refresh())
  return reactive({ head, items: computed(() => [...newestFirst.value].reverse()), loadingMore, error, hasMore: computed(() => nextCursor.value !== null), more, reload: newest.run, refresh: newest.refresh })
}

export interface Keys {
  next: () => void
  previous: () => void
  nextUnread: () => void
  reply: () => void
  block: () => void
  leave: () => void
}

/** Whether keys belong to the element that has the focus. */
const types = (target: EventTarget | null) => target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
const acts = (target: EventTarget | null) => target instanceof HTMLElement && target.closest('a, button, summary, [role="button"], [role="radio"], [role="combobox"]') !== null

/** The keys of the page. They do nothing while the viewer types, or while a dialog is open. */
export function useKeys(keys: Keys) {
  function press(event: KeyboardEvent) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || types(event.target) || isLost.value) return
    if (event.target instanceof HTMLElement && event.target.closest('[role="menu"]')) return
    if ([...document.querySelectorAll('[role="dialog"]')].some((one) => one.getClientRects().length > 0)) return // the focus can be outside of it
    const isOpen = event.target instanceof HTMLElement && event.target.closest('[data-conversation][aria-current="true"]') !== null
    const inThread = event.target instanceof HTMLElement && event.target.closest('[data-messages]') !== null
    const act: (() => void) | undefined = {
      j: keys.next,
      k: keys.previous,
      n: keys.nextUnread,
      b: keys.block,
      ArrowDown: inThread ? undefined : keys.next,
      ArrowUp: inThread ? undefined : keys.previous,
      Enter: isOpen || !acts(event.target) ? keys.reply : undefined,
      Escape: keys.leave,
    }[event.key]
    if (!act) return
    event.preventDefault()
    act()
  }
  document.addEventListener('keydown', press)
  onScopeDispose(() => document.removeEventListener('keydown', press))
}
