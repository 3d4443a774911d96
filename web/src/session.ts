// Who is signed in, and what that user may do.
import { computed, ref, shallowRef } from 'vue'
import { onRefused } from '@/api/lost'
import { api, ApiError, call } from '@/api/client'
import type { Operation, Schema } from '@/api/types'
import { base } from '@/base'
import { forgetForms } from '@/composables/form'

export type Session = Schema<'Session'>

/** The session; null while nobody is signed in. A page that is shown keeps it when it ends, see isLost. */
export const session = shallowRef<Session | null>(null)

/** Whether the session has ended under a page: the viewer signs in over the page, and goes on with what was typed there. */
export const isLost = ref(false)

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
  take(await call(api.POST('/api/v1/session', { body: { username, password } })))
}

/** Ends the session and opens the sign-in page anew: nothing that the user saw or typed stays for the next one. */
export async function signOut(everywhere: boolean): Promise<void> {
  try {
    await call(api.DELETE('/api/v1/session', { params: { query: { everywhere } } }))
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error // 401: the session has ended already
  }
  leave('sign-in')
}

function leave(path: string) {
  forgetForms()
  location.assign(`${base}/console/${path}`)
}

const rights = ({ username, role, company_no, app_id, operations }: Session) => JSON.stringify([username, role, company_no, app_id, [...operations].sort()])

/** Goes on with a session. Pages of another user, or of other rights, are not kept. */
function take(now: Session) {
  const before = session.value
  if (before && rights(before) !== rights(now)) {
    if (before.username !== now.username) return leave('') // the address may name what the other user searched for
    forgetForms()
    return location.reload()
  }
  session.value = now
  isLost.value = false
}

let checking = false

/** Asks whose session the cookie names by now: all tabs share it, and another user may have signed in in one of them. */
export async function check(): Promise<void> {
  if (!session.value || checking) return
  checking = true
  try {
    take(await call(api.GET('/api/v1/session')))
  } catch {
    // 401 is told to onRefused. After any other failure, the next check may get an answer.
  } finally {
    checking = false
  }
}

onRefused.run = (status) => {
  if (status === 401) isLost.value = session.value !== null
  else void check()
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void check()
})
