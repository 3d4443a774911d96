// What the server would do with a message, asked while the viewer types: nothing is sent or stored.
import { onScopeDispose, reactive, ref, shallowRef, watch } from 'vue'
import { api, asApiError, call, type ApiError } from '@/api/client'
import type { Schema } from '@/api/types'
import { can } from '@/session'

export type DryRun = Schema<'Submitted'>

/** Asks half a second after the last change of `request`. Null asks nothing. */
export function useDryRun(request: () => Schema<'SendRequest'> | null) {
  const answer = shallowRef<DryRun | null>(null)
  const error = shallowRef<ApiError | null>(null)
  const asking = ref(false)
  let wait: ReturnType<typeof setTimeout> | undefined
  let asked = 0

  async function ask(body: Schema<'SendRequest'>, mine: number) {
    try {
      const data = await call(api.POST('/api/v1/sms/send', { params: { query: { dry_run: true } }, body }))
      if (mine !== asked) return
      answer.value = data
      error.value = null
    } catch (caught) {
      if (mine !== asked) return
      answer.value = null
      error.value = asApiError(caught)
    }
    asking.value = false
  }

  watch(
    () => JSON.stringify(request()),
    () => {
      clearTimeout(wait)
      const mine = ++asked
      const body = can('sendSms') ? request() : null
      asking.value = body !== null
      if (body) wait = setTimeout(() => void ask(body, mine), 500)
      else answer.value = error.value = null
    },
    { immediate: true },
  )
  onScopeDispose(() => {
    clearTimeout(wait)
    asked++
  })
  return reactive({ answer, error, asking })
}
