// A list of the API: its filters live in the address, and it turns pages by cursor.
import { computed, reactive, ref, shallowRef, watch } from 'vue'
import { useRoute, useRouter } from 'vue-router'
import { asApiError, type ApiError } from '@/api/client'
import type { Page } from '@/api/types'

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

  let asked = 0
  async function load(quietly = false) {
    const mine = ++asked
    if (!quietly) loading.value = true
    const set = Object.fromEntries(Object.entries<string>(current()).filter(([, value]) => value !== '')) as Partial<Record<Filter, string>>
    try {
      const page = await options.load({ limit: options.limit ?? 50, ...(cursor.value ? { cursor: cursor.value } : {}) }, set)
      if (mine !== asked) return
      items.value = page.items
      nextCursor.value = page.next_cursor
      error.value = null
      loaded.value = true
    } catch (caught) {
      if (mine !== asked || (quietly && loaded.value)) return
      error.value = asApiError(caught)
      items.value = []
      nextCursor.value = null
    } finally {
      if (mine === asked) loading.value = false
    }
  }

  const go = (wanted: string, push: boolean) => {
    const query = { ...route.query, cursor: wanted || undefined }
    return push ? router.push({ query }) : router.replace({ query })
  }

  watch(
    () => (route.path === ownPath ? [cursor.value, ...names.map((name) => route.query[name])].join('\u0000') : null),
    (now) => {
      if (now === null) return // the viewer left the page
      Object.assign(filters, current())
      if (!cursor.value) before.value = []
      void load()
    },
    { immediate: true },
  )

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
    page: computed(() => before.value.length + 1),
    /** Puts the filters into the address, and shows the first page. */
    apply: () => {
      const query = Object.fromEntries(
        names.map((name) => [name, filters[name].trim() || (options.defaults?.[name] ? '' : undefined)]).filter(([, value]) => value !== undefined),
      ) as Record<string, string>
      const others = Object.fromEntries(Object.entries(route.query).filter(([name]) => name !== 'cursor' && !(names as readonly string[]).includes(name)))
      return router.push({ query: { ...others, ...query } }).then(() => undefined)
    },
    clear: () => {
      const others = Object.fromEntries(Object.entries(route.query).filter(([name]) => name !== 'cursor' && !(names as readonly string[]).includes(name)))
      return router.push({ query: others }).then(() => undefined)
    },
    next: () => {
      if (nextCursor.value === null) return
      before.value = [...before.value, cursor.value]
      return go(nextCursor.value, true)
    },
    previous: () => {
      const to = before.value.at(-1) ?? ''
      before.value = before.value.slice(0, -1)
      return go(to, true)
    },
    reload: () => load(),
    /** Loads again without showing that it loads, for live pages. */
    refresh: () => load(true),
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
  page: number
  clear: () => unknown
  next: () => unknown
  previous: () => unknown
  reload: () => unknown
}
