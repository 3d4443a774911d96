// One thing that a page loads, with its states.
import { reactive, ref, shallowRef, watch } from 'vue'
import { asApiError, type ApiError } from '@/api/client'

/** Loads now, and again when one of `sources` changes. */
export function useLoad<T>(load: () => Promise<T>, sources: () => unknown = () => null) {
  const data = shallowRef<T | null>(null)
  const loading = ref(false)
  const error = shallowRef<ApiError | null>(null)
  let asked = 0
  async function run(quietly = false) {
    const mine = ++asked
    if (!quietly) loading.value = true
    try {
      const value = await load()
      if (mine !== asked) return
      data.value = value
      error.value = null
    } catch (caught) {
      if (mine !== asked || (quietly && data.value !== null)) return
      error.value = asApiError(caught)
      data.value = null
    } finally {
      if (mine === asked) loading.value = false
    }
  }
  watch(sources, () => void run(), { immediate: true })
  return reactive({
    data,
    loading,
    error,
    reload: () => run(),
    /** Loads again without showing that it loads, for live pages. */
    refresh: () => run(true),
  })
}
