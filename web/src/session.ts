// Who is signed in, and what that user may do.
import { computed, shallowRef } from 'vue'
import { onSessionLost } from '@/api/lost'
import { api, ApiError, call } from '@/api/client'
import type { Operation, Schema } from '@/api/types'

export type Session = Schema<'Session'>

/** The session; null while nobody is signed in. */
export const session = shallowRef<Session | null>(null)

const operations = computed(() => new Set<string>(session.value?.operations))

/** Whether the user may call the operation. Pages and buttons that need an operation are shown only then. */
export const can = (operation: Operation): boolean => operations.value.has(operation)

/** Whether the user sees every company. */
export const seesAllCompanies = computed(() => session.value?.role === 'admin' || (session.value?.role === 'read' && session.value.company_no === null))

/** Restores the session that the cookie names, if any. */
export async function restore(): Promise<void> {
  try {
    session.value = await call(api.GET('/api/v1/session'))
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error
    session.value = null
  }
}

export async function signIn(username: string, password: string): Promise<void> {
  session.value = await call(api.POST('/api/v1/session', { body: { username, password } }))
}

export async function signOut(everywhere: boolean): Promise<void> {
  await call(api.DELETE('/api/v1/session', { params: { query: { everywhere } } }))
  session.value = null
}

onSessionLost.run = () => {
  session.value = null // the router leads to the sign-in page
}
