// What the forms of notifications and events share: the templates, the payload and its errors.
import { shallowRef, watch } from 'vue'
import { api, ApiError, call } from '@/api/client'
import type { Schema } from '@/api/types'
import { notify } from '@/composables/notify'
import { t } from '@/i18n'
import { can } from '@/session'

/** The templates, loaded each time a form opens. */
export function useTemplates(open: () => boolean) {
  const templates = shallowRef<Schema<'NotificationTemplate'>[]>([])
  watch(open, async (now) => {
    if (!now || !can('listNotificationTemplates')) return
    try {
      templates.value = (await call(api.GET('/api/v1/admin/notification-templates'))).items
    } catch (error) {
      notify.error(error)
    }
  })
  return templates
}

// The server calculates with these values.
const minutes = ['maxDuration', 'timeoutRemind']

/** The payload of typed values and of JSON. */
export function payloadOf(values: Record<string, string>, more: string): Record<string, unknown> {
  let own: unknown = {}
  try {
    own = more.trim() ? JSON.parse(more) : {}
  } catch {
    own = null
  }
  if (typeof own !== 'object' || own === null || Array.isArray(own)) throw wrong('payload', t('notifications.form.wrongPayload'))
  return { ...own, ...Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value === '' ? [] : [[name, minutes.includes(name) && /^\d+$/.test(value) ? Number(value) : value]]))) }
}

export const wrong = (field: string, sentence: string) => new ApiError(sentence, 422, 'request.invalid', { [field]: sentence })

/** A number of a field of text; an empty or wrong one is told at the field. */
export function whole(text: string, field: string): number {
  if (!/^-?\d{1,15}$/.test(text.trim())) throw wrong(field, t('notifications.form.wholeNumber'))
  return Number(text)
}
