// A list of the API: its filters live in the address, and it turns pages by cursor.
import { computed, reactive, ref, shallowRef, watch } from 'vue'
import { useRoute, useRouter } from 'vue-router'
import { asApiError, type ApiError } from '@/api/client'
import type { Page } from '@/api/types'
import { isLost } from '@/session'
import { useNewest } from './newest'

export interface ListQuery {
  limit: number
  cursor?: string
}

export interface ListOptions<Filter extends string, T> {
  /** The filters, which are also the names in the address. Their values are texts; '' means no filter. */
  filters?: readonly Filter[]
  /** Filters that apply while the address names none. */
  defaults?: Partial<Record<Filter, string>>
  /** Rows of one page; 50 by default. */
  limit?: number
  /** Asks for one page. `filters` holds only those that are set. */
  load: (query: ListQuery, filters: Partial<Record<Filter, string>>) => Promise<Page<T>>
}

export function useList<T, Filter extends string = never>(options: ListOptions<Filter, T>) {
  const route = useRoute()
  const router = useRouter()
  const names = (options.filters ?? []) as readonly Filter[]
  const ownPath = route.path

  const items = shallowRef<T[]>([])
  const nextCursor = ref<string | null>(null)
  const loading = ref(false)
  const loaded = ref(false)
  const error = shallowRef<ApiError | null>(null)
  const before = ref<string[]>([]) // the cursors of the pages before; '' is the first page

  const inAddress = (name: string): string => {
    const value = route.query[name]
    return typeof value === 'string' ? value : ''
  }
  const current = (): Record<Filter, string> =>
    Object.fromEntries(names.map((name) => [name, inAddress(name) || (name in route.query ? '' : (options.defaults?.[name] ?? ''))])) as Record<Filter, string>

  /** What the filter fields hold; `apply` puts it into the address. */
  const filters = reactive(current()) as Record<Filter, string>
  const cursor = computed(() => inAddress('cursor'))

  const newest = useNewest(async (isNewest, quietly) => {
    if (!quietly) loading.value = true
    const set = Object.fromEntries(Object.entries<string>(current()).filter(([, value]) => value !== '')) as Partial<Record<Filter, string>>
    try {
      const page = await options.load({ limit: options.limit ?? 50, ...(cursor.value ? { cursor: cursor.value } : {}) }, set)
      if (!isNewest()) return
      items.value = page.items
      nextCursor.value = page.next_cursor
      error.value = null
      loaded.value = true
    } catch (caught) {
      if (!isNewest() || (quietly && loaded.value)) return
      const failure = asApiError(caught)
      if (failure.status === 401) return // asked again after signing in
      error.value = failure
      items.value = []
      nextCursor.value = null
    } finally {
      if (isNewest()) loading.value = false
    }
  })

  const go = (wanted: string, before: string[]) => router.push({ query: { ...route.query, cursor: wanted || undefined }, state: { cursors: before } })

  watch(
    () => (route.path === ownPath ? [cursor.value, ...names.map((name) => route.query[name])].join('\u0000') : null),
    (now) => {
      if (now === null) return // the viewer left the page
      Object.assign(filters, current())
      // The entry of the browser's history, so that the pages are known after reloading and after going back.
      const known: unknown = history.state?.cursors
      before.value = cursor.value && Array.isArray(known) ? known.map(String) : []
      void newest.run()
    },
    { immediate: true },
  )
  watch(isLost, (lost) => lost || void newest.refresh())

  return reactive({
    items,
    loading,
    /** Whether an answer arrived since the page was opened. */
    loaded,
    error,
    filters,
    /** Whether a filter hides rows. */
    filtered: computed(() => Object.entries<string>(current()).some(([name, value]) => value !== (options.defaults?.[name as Filter] ?? ''))),
    hasNext: computed(() => nextCursor.value !== null),
    hasPrevious: computed(() => cursor.value !== ''),
    /** The number of the page; null where the address came from elsewhere. */
    page: computed(() => (cursor.value && before.value.length === 0 ? null : before.value.length + 1)),
    /** Puts the filters into the address, and shows the first page. The same address loads again. */
    apply: () => {
      const query = Object.fromEntries(
        names.map((name) => [name, filters[name].trim() || (options.defaults?.[name] ? '' : undefined)]).filter(([, value]) => value !== undefined),
      ) as Record<string, string>
      const others = Object.fromEntries(Object.entries(route.query).filter(([name]) => name !== 'cursor' && !(names as readonly string[]).includes(name)))
      const to = router.resolve({ query: { ...others, ...query } })
      return to.fullPath === route.fullPath ? newest.run() : router.push(to).then(() => undefined)
    },
    clear: () => {
      const others = Object.fromEntries(Object.entries(route.query).filter(([name]) => name !== 'cursor' && !(names as readonly string[]).includes(name)))
      return router.push({ query: others }).then(() => undefined)
    },
    next: () => {
      if (nextCursor.value !== null) return go(nextCursor.value, [...before.value, cursor.value])
    },
    previous: () => go(before.value.at(-1) ?? '', before.value.slice(0, -1)),
    reload: newest.run,
    /** Loads again without showing that it loads, for live pages. */
    refresh: newest.refresh,
  })
}

export type List<T> = {
  items: T[]
  loading: boolean
  loaded: boolean
  error: ApiError | null
  filtered: boolean
  hasNext: boolean
  hasPrevious: boolean
  page: number | null
  clear: () => unknown
  next: () => unknown
  previous: () => unknown
  reload: () => unknown
}
