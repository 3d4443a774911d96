// Values that a page keeps in its address.
import { computed, type WritableComputedRef } from 'vue'
import { useRoute, useRouter } from 'vue-router'

/** The query parameter of this name; empty: the address has none. Call it in the setup of a page. */
export function useInAddress(name: string): WritableComputedRef<string> {
  const route = useRoute()
  const router = useRouter()
  return computed({ get: () => String(route.query[name] ?? ''), set: (value) => void router.replace({ query: { ...route.query, [name]: value || undefined } }) })
}

/** The query parameters of a page whose filters are all in its address. `put` changes some of them, and adds a step to the history of the browser. Call it in the setup of a page. */
export function useAddress(): { text: (name: string) => string; put: (changes: Record<string, string>) => Promise<unknown> } {
  const route = useRoute()
  const router = useRouter()
  return {
    text: (name) => (typeof route.query[name] === 'string' ? (route.query[name] as string) : ''),
    put: (changes) => router.push({ query: Object.fromEntries(Object.entries({ ...route.query, ...changes }).filter(([, value]) => value)) }),
  }
}
