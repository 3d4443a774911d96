// A value that a page keeps in its address.
import { computed, type WritableComputedRef } from 'vue'
import { useRoute, useRouter } from 'vue-router'

/** The query parameter of this name; empty: the address has none. Call it in the setup of a page. */
export function useInAddress(name: string): WritableComputedRef<string> {
  const route = useRoute()
  const router = useRouter()
  return computed({ get: () => String(route.query[name] ?? ''), set: (value) => void router.replace({ query: { ...route.query, [name]: value || undefined } }) })
}
