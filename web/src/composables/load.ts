// One thing that a page loads, with its states.
import { reactive, ref, shallowRef, watch } from 'vue'
import { asApiError, type ApiError } from '@/api/client'
import { isLost } from '@/session'
import { useNewest } from './newest'

/** Loads now, and again when one of `sources` changes. */
export function useLoad<T>(load: () => Promise<T>, sources: () => unknown = () => null) {
  const data = shallowRef<T | null>(null)
  const loading = ref(false)
  const error = shallowRef<ApiError | null>(null)
  const newest = useNewest(async (isNewest, quietly) => {
    if (!quietly) loading.value = true
    try {
      const value = await load()
      if (!isNewest()) return
      data.value = value
      error.value = null
    } catch (caught) {
      if (!isNewest() || (quietly && data.value !== null)) return
      const failure = asApiError(caught)
      if (failure.status === 401) return // asked again after signing in
      error.value = failure
      data.value = null
    } finally {
      if (isNewest()) loading.value = false
    }
  })
  watch(sources, () => void newest.run(), { immediate: true })
  watch(isLost, (lost) => lost || void newest.refresh())
  return reactive({
    data,
    loading,
    error,
    reload: newest.run,
    /** Loads again without showing that it loads, for live pages. */
    refresh: newest.refresh,
  })
}
