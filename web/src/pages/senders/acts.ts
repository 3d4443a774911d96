// What an operator does with a sender from the list and from its page.
import { computed } from 'vue'
import { api, call } from '@/api/client'
import { confirmDanger } from '@/composables/confirm'
import { useLive } from '@/composables/live'
import { attempt, notify } from '@/composables/notify'
import { t } from '@/i18n'
import type { Sender } from './readiness'

const path = (sender: Sender) => ({ sender_no: sender.sender_no })

const setStatus = (sender: Sender, status: Sender['status']) =>
  call(api.PATCH('/api/v1/admin/senders/{sender_no}', { params: { path: path(sender) }, body: { status, version: sender.version } }))

/** Pauses a sender that is on, and resumes any other. */
export function togglePause(sender: Sender): Promise<boolean> {
  const now = sender.status === 'on' ? 'off' : 'on'
  return attempt(() => setStatus(sender, now), t(now === 'on' ? 'senders.resumed' : 'senders.paused', { name: sender.name }))
}

export const retire = (sender: Sender): Promise<boolean> =>
  confirmDanger({
    title: t('senders.retire.title', { name: sender.name }),
    text: t('senders.retire.text'),
    button: t('senders.retire.button'),
    run: () => setStatus(sender, 'retired'),
  })

export async function remove(sender: Sender): Promise<boolean> {
  const done = await confirmDanger({
    title: t('senders.delete.title', { name: sender.name }),
    text: t('senders.delete.text'),
    button: t('senders.delete.button'),
    run: () => call(api.DELETE('/api/v1/admin/senders/{sender_no}', { params: { path: path(sender) } })),
  })
  if (done) notify.done(t('common.deleted'))
  return done
}

/** The numbers of the senders that have not polled lately, as the live figures say. */
export function useSilent() {
  const { overview } = useLive()
  return computed(() => new Set((overview.value?.senders_not_ready ?? []).filter((one) => one.reason === 'silent').map((one) => one.sender_no)))
}
